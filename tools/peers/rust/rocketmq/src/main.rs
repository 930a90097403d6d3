// One message after the other with tags in turn, and a consumer of some tags that prints what it gets.
#![recursion_limit = "512"]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rocketmq_client_rust::{
    ClientResult, ClientRuntime, ClientRuntimeConfig, ConsumeConcurrentlyContext, ConsumeConcurrentlyStatus,
    DefaultMQProducer, DefaultMQPushConsumer, MQPushConsumer, MessageListenerConcurrently,
};
use rocketmq_model::common::message::message_ext::MessageExt;
use rocketmq_model::common::message::message_single::Message;
use rocketmq_runtime::{RuntimeConfig, RuntimeOwner};

struct Printing(Arc<AtomicUsize>);

impl MessageListenerConcurrently for Printing {
    fn consume_message(
        &self,
        messages: &[&MessageExt],
        _: &ConsumeConcurrentlyContext,
    ) -> ClientResult<ConsumeConcurrentlyStatus> {
        for each in messages {
            let body = each.body().map(|b| String::from_utf8_lossy(&b).to_string()).unwrap_or_default();
            println!("{} {}", each.get_tags().unwrap_or_default(), body);
            self.0.fetch_add(1, Ordering::SeqCst);
        }
        Ok(ConsumeConcurrentlyStatus::ConsumeSuccess)
    }
}

#[tokio::main]
async fn main() -> ClientResult<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [names, topic, group, tags] = args.as_slice() else { panic!("NAMES TOPIC GROUP TAGS") };
    let owner = RuntimeOwner::plan(RuntimeConfig::default()).expect("valid").build().expect("runtime");
    let telemetry =
        rocketmq_observability::install_global(&rocketmq_observability::TelemetryBootstrapConfig::default()).expect("telemetry");
    let runtime =
        ClientRuntime::try_new(owner.root_context().component("client"), ClientRuntimeConfig::default(), telemetry.handle())?;
    let mut producer = DefaultMQProducer::builder(runtime.clone())
        .producer_group(format!("{group}-p"))
        .name_server_addr(names.clone())
        .build();
    producer.start().await?;
    for tag in ["A", "B", "C", "A", "B", "C"] {
        let body = format!("of {tag}");
        let message = Message::builder().topic(topic.as_str()).tags(tag).body_slice(body.as_bytes()).build_unchecked();
        producer.send_with_timeout(message, 10_000).await?;
    }
    let found = Arc::new(AtomicUsize::new(0));
    let mut consumer = DefaultMQPushConsumer::builder(runtime.clone())
        .consumer_group(group.clone())
        .name_server_addr(names.clone())
        .build();
    consumer.subscribe(topic.as_str(), tags.as_str()).await?;
    consumer.register_message_listener_concurrently(Printing(found.clone()));
    consumer.start().await?;
    let wanted = 2 * tags.split("||").count();
    for _ in 0..400 {
        if found.load(Ordering::SeqCst) >= wanted {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await; // for more than was asked for
    std::process::exit(0)
}
