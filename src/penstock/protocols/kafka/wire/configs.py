"""Messages about configuration and users: configs of resources, SASL, ACLs, SCRAM credentials, client quotas.

The field names are the wire names in snake case. Messages have no behaviour; ``codec`` reads and writes them.
Source: Apache Kafka protocol guide, message schemas of 4.3; KIP-546, KIP-554.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from penstock.interfaces import Buffer
from penstock.protocols.kafka.wire.declarations import BOOL, BYTES, F64, I8, I16, I32, I64, STR, Api, Message, array


# Configuration: DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources.
class DescribeConfigsRequestResource(Message):
    """One entry of ``resources``."""

    resource_type: Annotated[int, I8] = 0
    resource_name: Annotated[str, STR] = ""
    configuration_keys: Annotated[Sequence[str] | None, array(STR).nullable()] = ()


class DescribeConfigsRequest(Message):
    """DescribeConfigs request, versions 0-4."""

    API: ClassVar[Api] = Api(32, 0, 4, flexible=4)
    resources: Annotated[Sequence[DescribeConfigsRequestResource], array(DescribeConfigsRequestResource)] = ()
    include_synonyms: Annotated[bool, BOOL.since(1)] = False
    include_documentation: Annotated[bool, BOOL.since(3)] = False


class DescribeConfigsResponseSynonym(Message):
    """One entry of ``synonyms``."""

    name: Annotated[str, STR] = ""
    value: Annotated[str | None, STR.nullable()] = ""
    source: Annotated[int, I8] = 0


class DescribeConfigsResponseConfig(Message):
    """One entry of ``configs``."""

    name: Annotated[str, STR] = ""
    value: Annotated[str | None, STR.nullable()] = ""
    read_only: Annotated[bool, BOOL] = False
    config_source: Annotated[int, I8.since(1).ignorable()] = -1
    is_default: Annotated[bool, BOOL.between(0, 0).ignorable()] = False
    is_sensitive: Annotated[bool, BOOL] = False
    synonyms: Annotated[
        Sequence[DescribeConfigsResponseSynonym], array(DescribeConfigsResponseSynonym).since(1).ignorable()
    ] = ()
    config_type: Annotated[int, I8.since(3).ignorable()] = 0
    documentation: Annotated[str | None, STR.nullable().since(3).ignorable()] = ""


class DescribeConfigsResponseResult(Message):
    """One entry of ``results``."""

    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable()] = ""
    resource_type: Annotated[int, I8] = 0
    resource_name: Annotated[str, STR] = ""
    configs: Annotated[Sequence[DescribeConfigsResponseConfig], array(DescribeConfigsResponseConfig)] = ()


class DescribeConfigsResponse(Message):
    """DescribeConfigs response, versions 0-4."""

    API: ClassVar[Api] = Api(32, 0, 4, flexible=4)
    throttle_time_ms: Annotated[int, I32] = 0
    results: Annotated[Sequence[DescribeConfigsResponseResult], array(DescribeConfigsResponseResult)] = ()


class AlterConfigsRequestConfig(Message):
    """One entry of ``configs``."""

    name: Annotated[str, STR] = ""
    value: Annotated[str | None, STR.nullable()] = ""


class AlterConfigsRequestResource(Message):
    """One entry of ``resources``."""

    resource_type: Annotated[int, I8] = 0
    resource_name: Annotated[str, STR] = ""
    configs: Annotated[Sequence[AlterConfigsRequestConfig], array(AlterConfigsRequestConfig)] = ()


class AlterConfigsRequest(Message):
    """AlterConfigs request, versions 0-2."""

    API: ClassVar[Api] = Api(33, 0, 2, flexible=2)
    resources: Annotated[Sequence[AlterConfigsRequestResource], array(AlterConfigsRequestResource)] = ()
    validate_only: Annotated[bool, BOOL] = False


class AlterConfigsResponseTopic(Message):
    """One entry of ``responses``."""

    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable()] = ""
    resource_type: Annotated[int, I8] = 0
    resource_name: Annotated[str, STR] = ""


class AlterConfigsResponse(Message):
    """AlterConfigs response, versions 0-2."""

    API: ClassVar[Api] = Api(33, 0, 2, flexible=2)
    throttle_time_ms: Annotated[int, I32] = 0
    responses: Annotated[Sequence[AlterConfigsResponseTopic], array(AlterConfigsResponseTopic)] = ()


class IncrementalAlterConfigsRequestConfig(Message):
    """One entry of ``configs``."""

    name: Annotated[str, STR] = ""
    config_operation: Annotated[int, I8] = 0
    value: Annotated[str | None, STR.nullable()] = ""


class IncrementalAlterConfigsRequestResource(Message):
    """One entry of ``resources``."""

    resource_type: Annotated[int, I8] = 0
    resource_name: Annotated[str, STR] = ""
    configs: Annotated[Sequence[IncrementalAlterConfigsRequestConfig], array(IncrementalAlterConfigsRequestConfig)] = ()


class IncrementalAlterConfigsRequest(Message):
    """IncrementalAlterConfigs request, versions 0-1."""

    API: ClassVar[Api] = Api(44, 0, 1, flexible=1)
    resources: Annotated[
        Sequence[IncrementalAlterConfigsRequestResource], array(IncrementalAlterConfigsRequestResource)
    ] = ()
    validate_only: Annotated[bool, BOOL] = False


class IncrementalAlterConfigsResponseTopic(Message):
    """One entry of ``responses``."""

    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable()] = ""
    resource_type: Annotated[int, I8] = 0
    resource_name: Annotated[str, STR] = ""


class IncrementalAlterConfigsResponse(Message):
    """IncrementalAlterConfigs response, versions 0-1."""

    API: ClassVar[Api] = Api(44, 0, 1, flexible=1)
    throttle_time_ms: Annotated[int, I32] = 0
    responses: Annotated[
        Sequence[IncrementalAlterConfigsResponseTopic], array(IncrementalAlterConfigsResponseTopic)
    ] = ()


class ListConfigResourcesRequest(Message):
    """ListConfigResources request, versions 0-1."""

    API: ClassVar[Api] = Api(74, 0, 1, flexible=0)
    resource_types: Annotated[Sequence[int], array(I8).since(1)] = ()


class ListConfigResourcesResponseConfigResource(Message):
    """One entry of ``config_resources``."""

    resource_name: Annotated[str, STR] = ""
    resource_type: Annotated[int, I8.since(1).ignorable()] = 16


class ListConfigResourcesResponse(Message):
    """ListConfigResources response, versions 0-1."""

    API: ClassVar[Api] = Api(74, 0, 1, flexible=0)
    throttle_time_ms: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0
    config_resources: Annotated[
        Sequence[ListConfigResourcesResponseConfigResource], array(ListConfigResourcesResponseConfigResource)
    ] = ()


# Users and their permissions: SASL, ACLs, SCRAM credentials (KIP-554), client quotas (KIP-546).
class SaslHandshakeRequest(Message):
    """SaslHandshake request, versions 0-1."""

    API: ClassVar[Api] = Api(17, 0, 1, flexible=None)
    mechanism: Annotated[str, STR] = ""


class SaslHandshakeResponse(Message):
    """SaslHandshake response, versions 0-1."""

    API: ClassVar[Api] = Api(17, 0, 1, flexible=None)
    error_code: Annotated[int, I16] = 0
    mechanisms: Annotated[Sequence[str], array(STR)] = ()


class SaslAuthenticateRequest(Message):
    """SaslAuthenticate request, versions 0-2."""

    API: ClassVar[Api] = Api(36, 0, 2, flexible=2)
    auth_bytes: Annotated[Buffer, BYTES] = b""


class SaslAuthenticateResponse(Message):
    """SaslAuthenticate response, versions 0-2."""

    API: ClassVar[Api] = Api(36, 0, 2, flexible=2)
    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable()] = ""
    auth_bytes: Annotated[Buffer, BYTES] = b""
    session_lifetime_ms: Annotated[int, I64.since(1).ignorable()] = 0


class DescribeAclsRequest(Message):
    """DescribeAcls request, versions 1-3."""

    API: ClassVar[Api] = Api(29, 1, 3, flexible=2)
    resource_type_filter: Annotated[int, I8] = 0
    resource_name_filter: Annotated[str | None, STR.nullable()] = ""
    pattern_type_filter: Annotated[int, I8.since(1)] = 3
    principal_filter: Annotated[str | None, STR.nullable()] = ""
    host_filter: Annotated[str | None, STR.nullable()] = ""
    operation: Annotated[int, I8] = 0
    permission_type: Annotated[int, I8] = 0


class DescribeAclsResponseAcl(Message):
    """One entry of ``acls``."""

    principal: Annotated[str, STR] = ""
    host: Annotated[str, STR] = ""
    operation: Annotated[int, I8] = 0
    permission_type: Annotated[int, I8] = 0


class DescribeAclsResponseResource(Message):
    """One entry of ``resources``."""

    resource_type: Annotated[int, I8] = 0
    resource_name: Annotated[str, STR] = ""
    pattern_type: Annotated[int, I8.since(1)] = 3
    acls: Annotated[Sequence[DescribeAclsResponseAcl], array(DescribeAclsResponseAcl)] = ()


class DescribeAclsResponse(Message):
    """DescribeAcls response, versions 1-3."""

    API: ClassVar[Api] = Api(29, 1, 3, flexible=2)
    throttle_time_ms: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable()] = ""
    resources: Annotated[Sequence[DescribeAclsResponseResource], array(DescribeAclsResponseResource)] = ()


class DescribeUserScramCredentialsRequestUser(Message):
    """One entry of ``users``."""

    name: Annotated[str, STR] = ""


class DescribeUserScramCredentialsRequest(Message):
    """DescribeUserScramCredentials request, version 0; ``users`` None means all users."""

    API: ClassVar[Api] = Api(50, 0, 0, flexible=0)
    users: Annotated[
        Sequence[DescribeUserScramCredentialsRequestUser] | None,
        array(DescribeUserScramCredentialsRequestUser).nullable(),
    ] = ()


class DescribeUserScramCredentialsResponseCredential(Message):
    """One entry of ``credential_infos``."""

    mechanism: Annotated[int, I8] = 0
    iterations: Annotated[int, I32] = 0


class DescribeUserScramCredentialsResponseResult(Message):
    """One entry of ``results``."""

    user: Annotated[str, STR] = ""
    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable()] = ""
    credential_infos: Annotated[
        Sequence[DescribeUserScramCredentialsResponseCredential], array(DescribeUserScramCredentialsResponseCredential)
    ] = ()


class DescribeUserScramCredentialsResponse(Message):
    """DescribeUserScramCredentials response, version 0."""

    API: ClassVar[Api] = Api(50, 0, 0, flexible=0)
    throttle_time_ms: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable()] = ""
    results: Annotated[
        Sequence[DescribeUserScramCredentialsResponseResult], array(DescribeUserScramCredentialsResponseResult)
    ] = ()


class DescribeClientQuotasRequestComponent(Message):
    """One entry of ``components``."""

    entity_type: Annotated[str, STR] = ""
    match_type: Annotated[int, I8] = 0
    match: Annotated[str | None, STR.nullable()] = ""


class DescribeClientQuotasRequest(Message):
    """DescribeClientQuotas request, versions 0-1."""

    API: ClassVar[Api] = Api(48, 0, 1, flexible=1)
    components: Annotated[
        Sequence[DescribeClientQuotasRequestComponent], array(DescribeClientQuotasRequestComponent)
    ] = ()
    strict: Annotated[bool, BOOL] = False


class DescribeClientQuotasResponseEntity(Message):
    """One entry of ``entity``; ``entity_name`` None is the default entity of its type."""

    entity_type: Annotated[str, STR] = ""
    entity_name: Annotated[str | None, STR.nullable()] = ""


class DescribeClientQuotasResponseValue(Message):
    """One entry of ``values``."""

    key: Annotated[str, STR] = ""
    value: Annotated[float, F64] = 0.0


class DescribeClientQuotasResponseEntry(Message):
    """One entry of ``entries``."""

    entity: Annotated[Sequence[DescribeClientQuotasResponseEntity], array(DescribeClientQuotasResponseEntity)] = ()
    values: Annotated[Sequence[DescribeClientQuotasResponseValue], array(DescribeClientQuotasResponseValue)] = ()


class DescribeClientQuotasResponse(Message):
    """DescribeClientQuotas response, versions 0-1."""

    API: ClassVar[Api] = Api(48, 0, 1, flexible=1)
    throttle_time_ms: Annotated[int, I32] = 0
    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable()] = ""
    entries: Annotated[
        Sequence[DescribeClientQuotasResponseEntry] | None, array(DescribeClientQuotasResponseEntry).nullable()
    ] = ()


class AlterClientQuotasRequestEntity(Message):
    """One entry of ``entity``; ``entity_name`` None is the default entity of its type."""

    entity_type: Annotated[str, STR] = ""
    entity_name: Annotated[str | None, STR.nullable()] = ""


class AlterClientQuotasRequestOp(Message):
    """One entry of ``ops``."""

    key: Annotated[str, STR] = ""
    value: Annotated[float, F64] = 0.0
    remove: Annotated[bool, BOOL] = False


class AlterClientQuotasRequestEntry(Message):
    """One entry of ``entries``."""

    entity: Annotated[Sequence[AlterClientQuotasRequestEntity], array(AlterClientQuotasRequestEntity)] = ()
    ops: Annotated[Sequence[AlterClientQuotasRequestOp], array(AlterClientQuotasRequestOp)] = ()


class AlterClientQuotasRequest(Message):
    """AlterClientQuotas request, versions 0-1."""

    API: ClassVar[Api] = Api(49, 0, 1, flexible=1)
    entries: Annotated[Sequence[AlterClientQuotasRequestEntry], array(AlterClientQuotasRequestEntry)] = ()
    validate_only: Annotated[bool, BOOL] = False


class AlterClientQuotasResponseEntity(Message):
    """One entry of ``entity``."""

    entity_type: Annotated[str, STR] = ""
    entity_name: Annotated[str | None, STR.nullable()] = ""


class AlterClientQuotasResponseEntry(Message):
    """One entry of ``entries``."""

    error_code: Annotated[int, I16] = 0
    error_message: Annotated[str | None, STR.nullable()] = ""
    entity: Annotated[Sequence[AlterClientQuotasResponseEntity], array(AlterClientQuotasResponseEntity)] = ()


class AlterClientQuotasResponse(Message):
    """AlterClientQuotas response, versions 0-1."""

    API: ClassVar[Api] = Api(49, 0, 1, flexible=1)
    throttle_time_ms: Annotated[int, I32] = 0
    entries: Annotated[Sequence[AlterClientQuotasResponseEntry], array(AlterClientQuotasResponseEntry)] = ()
