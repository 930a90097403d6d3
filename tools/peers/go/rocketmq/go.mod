module client

go 1.16

require github.com/apache/rocketmq-client-go/v2 v2.1.2
