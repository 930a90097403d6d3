// ons.js send|push --names A --group G [--topic T] [--tags "A||B"]: ali-ons behind the lines of Send.java and Push.java.
// It signs every request, so it is given a name and a secret; servers that ask for none do not look.
'use strict';
const readline = require('readline');
const { Consumer, Message, Producer } = require('ali-ons');
const httpclient = require('urllib');

const options = {};
for (let i = 3; i < process.argv.length; i += 2) options[process.argv[i].slice(2)] = process.argv[i + 1];
const logger = { info() {}, debug() {}, warn() {}, error: console.error };
const shared = { nameSrv: options.names, httpclient, accessKeyId: 'name', accessKeySecret: 'secret', logger };
const line = row => process.stdout.write(JSON.stringify(row) + '\n');

async function send() {
  const producer = new Producer({ producerGroup: options.group, ...shared });
  await producer.ready();
  line({ event: 'ready' });
  let number = 0;
  for await (const text of readline.createInterface({ input: process.stdin })) {
    const wanted = JSON.parse(text);
    const message = new Message(wanted.topic, wanted.tags || '', Buffer.from(wanted.bodies[0], 'base64'));
    if (wanted.keys) message.keys = wanted.keys.split(' ');
    for (const [ name, value ] of Object.entries(wanted.properties || {})) message.properties[name] = value;
    try {
      const told = await producer.send(message);
      const { brokerName, queueId } = told.messageQueue;
      line({ event: 'sent', n: number, status: told.sendStatus, id: told.msgId, broker: brokerName, queue: Number(queueId), offset: Number(told.queueOffset) });
    } catch (trouble) {
      line({ event: 'failed', n: number, code: trouble.code || -1, text: `${trouble}` });
    }
    number++;
  }
  return producer;
}

async function push() {
  const where = { consumerGroup: options.group, consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET', persistent: true };
  const consumer = new Consumer({ ...where, ...shared });
  consumer.subscribe(options.topic, options.tags || '*', async message => line({
    event: 'message', topic: message.topic, queue: message.queueId, offset: Number(message.queueOffset),
    body: message.body.toString('base64'), id: message.msgId, tags: message.tags, keys: message.keys,
    properties: message.properties, attempt: message.reconsumeTimes,
  }));
  consumer.on('error', console.error);
  await consumer.ready();
  line({ event: 'ready' });
  await new Promise(end => process.once('SIGTERM', end));
  return consumer;
}

({ send, push })[process.argv[2]]().then(client => client.close()).then(() => {
  line({ event: 'closed' });
  process.exit(0);
}, trouble => {
  console.error(trouble);
  process.exit(1);
});
