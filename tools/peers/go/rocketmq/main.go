// One message after the other with tags in turn, and a consumer of some tags that prints what it gets.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	names, topic, group, tags := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	c, err := rocketmq.NewPushConsumer(
		consumer.WithNameServer([]string{names}),
		consumer.WithGroupName(group),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	)
	must(err)
	var lock sync.Mutex
	found := 0
	chosen := consumer.MessageSelector{Type: consumer.TAG, Expression: tags}
	must(c.Subscribe(topic, chosen, func(_ context.Context, several ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		lock.Lock()
		defer lock.Unlock()
		for _, each := range several {
			fmt.Printf("%s %s\n", each.GetTags(), each.Body)
			found++
		}
		return consumer.ConsumeSuccess, nil
	}))
	p, err := rocketmq.NewProducer(producer.WithNameServer([]string{names}), producer.WithGroupName(group+"-p"))
	must(err)
	must(p.Start())
	for _, tag := range strings.Split("A,B,C,A,B,C", ",") {
		message := primitive.NewMessage(topic, []byte("of "+tag)).WithTag(tag)
		_, err := p.SendSync(context.Background(), message)
		must(err)
	}
	must(c.Start())
	wanted := 2 * len(strings.Split(tags, "||"))
	for until := time.Now().Add(40 * time.Second); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		lock.Lock()
		enough := found >= wanted
		lock.Unlock()
		if enough {
			time.Sleep(time.Second) // for more than was asked for
			break
		}
	}
	must(c.Shutdown())
	must(p.Shutdown())
}
