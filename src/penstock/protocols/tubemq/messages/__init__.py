"""Every message of the protocol as declared data. ``encode`` and ``decode`` read and write all of them."""

from penstock.protocols.tubemq.messages.authorization import AuthenticateInfo as AuthenticateInfo
from penstock.protocols.tubemq.messages.authorization import AuthorizedInfo as AuthorizedInfo
from penstock.protocols.tubemq.messages.authorization import EnableBrokerFunInfo as EnableBrokerFunInfo
from penstock.protocols.tubemq.messages.authorization import MasterAuthorizedInfo as MasterAuthorizedInfo
from penstock.protocols.tubemq.messages.authorization import MasterBrokerAuthorizedInfo as MasterBrokerAuthorizedInfo
from penstock.protocols.tubemq.messages.authorization import MasterCertificateInfo as MasterCertificateInfo
from penstock.protocols.tubemq.messages.balanced import ClientSubRepInfo as ClientSubRepInfo
from penstock.protocols.tubemq.messages.balanced import GetPartMetaRequestC2M as GetPartMetaRequestC2M
from penstock.protocols.tubemq.messages.balanced import GetPartMetaResponseM2C as GetPartMetaResponseM2C
from penstock.protocols.tubemq.messages.balanced import HeartRequestC2MV2 as HeartRequestC2MV2
from penstock.protocols.tubemq.messages.balanced import HeartResponseM2CV2 as HeartResponseM2CV2
from penstock.protocols.tubemq.messages.balanced import OpsTaskInfo as OpsTaskInfo
from penstock.protocols.tubemq.messages.balanced import RegisterRequestC2MV2 as RegisterRequestC2MV2
from penstock.protocols.tubemq.messages.balanced import RegisterResponseM2CV2 as RegisterResponseM2CV2
from penstock.protocols.tubemq.messages.broker import CommitOffsetRequestC2B as CommitOffsetRequestC2B
from penstock.protocols.tubemq.messages.broker import CommitOffsetResponseB2C as CommitOffsetResponseB2C
from penstock.protocols.tubemq.messages.broker import GetMessageRequestC2B as GetMessageRequestC2B
from penstock.protocols.tubemq.messages.broker import GetMessageResponseB2C as GetMessageResponseB2C
from penstock.protocols.tubemq.messages.broker import HeartBeatRequestC2B as HeartBeatRequestC2B
from penstock.protocols.tubemq.messages.broker import HeartBeatResponseB2C as HeartBeatResponseB2C
from penstock.protocols.tubemq.messages.broker import RegisterRequestC2B as RegisterRequestC2B
from penstock.protocols.tubemq.messages.broker import RegisterResponseB2C as RegisterResponseB2C
from penstock.protocols.tubemq.messages.broker import SendMessageRequestP2B as SendMessageRequestP2B
from penstock.protocols.tubemq.messages.broker import SendMessageResponseB2P as SendMessageResponseB2P
from penstock.protocols.tubemq.messages.broker import TransferedMessage as TransferedMessage
from penstock.protocols.tubemq.messages.cluster import CloseRequestB2M as CloseRequestB2M
from penstock.protocols.tubemq.messages.cluster import CloseResponseM2B as CloseResponseM2B
from penstock.protocols.tubemq.messages.cluster import ClusterConfig as ClusterConfig
from penstock.protocols.tubemq.messages.cluster import HeartRequestB2M as HeartRequestB2M
from penstock.protocols.tubemq.messages.cluster import HeartResponseM2B as HeartResponseM2B
from penstock.protocols.tubemq.messages.cluster import RegisterRequestB2M as RegisterRequestB2M
from penstock.protocols.tubemq.messages.cluster import RegisterResponseM2B as RegisterResponseM2B
from penstock.protocols.tubemq.messages.codec import decode as decode
from penstock.protocols.tubemq.messages.codec import encode as encode
from penstock.protocols.tubemq.messages.consumer import CloseRequestC2M as CloseRequestC2M
from penstock.protocols.tubemq.messages.consumer import CloseResponseM2C as CloseResponseM2C
from penstock.protocols.tubemq.messages.consumer import EventProto as EventProto
from penstock.protocols.tubemq.messages.consumer import HeartRequestC2M as HeartRequestC2M
from penstock.protocols.tubemq.messages.consumer import HeartResponseM2C as HeartResponseM2C
from penstock.protocols.tubemq.messages.consumer import RegisterRequestC2M as RegisterRequestC2M
from penstock.protocols.tubemq.messages.consumer import RegisterResponseM2C as RegisterResponseM2C
from penstock.protocols.tubemq.messages.declare import Message as Message
from penstock.protocols.tubemq.messages.declare import has as has
from penstock.protocols.tubemq.messages.envelope import RequestBody as RequestBody
from penstock.protocols.tubemq.messages.envelope import RequestHeader as RequestHeader
from penstock.protocols.tubemq.messages.envelope import ResponseHeader as ResponseHeader
from penstock.protocols.tubemq.messages.envelope import RpcConnHeader as RpcConnHeader
from penstock.protocols.tubemq.messages.envelope import RspExceptionBody as RspExceptionBody
from penstock.protocols.tubemq.messages.envelope import RspResponseBody as RspResponseBody
from penstock.protocols.tubemq.messages.producer import ApprovedClientConfig as ApprovedClientConfig
from penstock.protocols.tubemq.messages.producer import CloseRequestP2M as CloseRequestP2M
from penstock.protocols.tubemq.messages.producer import CloseResponseM2P as CloseResponseM2P
from penstock.protocols.tubemq.messages.producer import HeartRequestP2M as HeartRequestP2M
from penstock.protocols.tubemq.messages.producer import HeartResponseM2P as HeartResponseM2P
from penstock.protocols.tubemq.messages.producer import RegisterRequestP2M as RegisterRequestP2M
from penstock.protocols.tubemq.messages.producer import RegisterResponseM2P as RegisterResponseM2P

__all__ = [
    "ApprovedClientConfig",
    "AuthenticateInfo",
    "AuthorizedInfo",
    "ClientSubRepInfo",
    "CloseRequestB2M",
    "CloseRequestC2M",
    "CloseRequestP2M",
    "CloseResponseM2B",
    "CloseResponseM2C",
    "CloseResponseM2P",
    "ClusterConfig",
    "CommitOffsetRequestC2B",
    "CommitOffsetResponseB2C",
    "EnableBrokerFunInfo",
    "EventProto",
    "GetMessageRequestC2B",
    "GetMessageResponseB2C",
    "GetPartMetaRequestC2M",
    "GetPartMetaResponseM2C",
    "HeartBeatRequestC2B",
    "HeartBeatResponseB2C",
    "HeartRequestB2M",
    "HeartRequestC2M",
    "HeartRequestC2MV2",
    "HeartRequestP2M",
    "HeartResponseM2B",
    "HeartResponseM2C",
    "HeartResponseM2CV2",
    "HeartResponseM2P",
    "MasterAuthorizedInfo",
    "MasterBrokerAuthorizedInfo",
    "MasterCertificateInfo",
    "Message",
    "OpsTaskInfo",
    "RegisterRequestB2M",
    "RegisterRequestC2B",
    "RegisterRequestC2M",
    "RegisterRequestC2MV2",
    "RegisterRequestP2M",
    "RegisterResponseB2C",
    "RegisterResponseM2B",
    "RegisterResponseM2C",
    "RegisterResponseM2CV2",
    "RegisterResponseM2P",
    "RequestBody",
    "RequestHeader",
    "ResponseHeader",
    "RpcConnHeader",
    "RspExceptionBody",
    "RspResponseBody",
    "SendMessageRequestP2B",
    "SendMessageResponseB2P",
    "TransferedMessage",
    "decode",
    "encode",
    "has",
]
