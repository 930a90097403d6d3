"""DescribeClientQuotas, AlterClientQuotas, DescribeUserScramCredentials, DescribeAcls: no quotas, users and rules here.

Source: Kafka protocol, DescribeClientQuotas and AlterClientQuotas v0-v1 (KIP-546), DescribeUserScramCredentials v0
(KIP-554), DescribeAcls v1-v3.
"""

from __future__ import annotations

from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.protocols.kafka.front.call import Call
from penstock.protocols.kafka.front.faults import Refused
from penstock.protocols.kafka.messages.security import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntity,
    AlterClientQuotasResponseEntry,
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasRequestComponent,
    DescribeClientQuotasResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResponseResult,
)

__all__ = ["alter_client_quotas", "describe_acls", "describe_client_quotas", "describe_scram_credentials"]

_ENTITIES = ("user", "client-id", "ip")
_EXACT, _DEFAULT, _ANY = range(3)


async def describe_client_quotas(call: Call, request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    """Serve DescribeClientQuotas: none match."""
    try:
        for component in request.components:
            await call.pace.spend(1, 0.2)
            _check(component)
    except Refused as error:
        return DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None)
    return DescribeClientQuotasResponse(entries=[])


def _check(component: DescribeClientQuotasRequestComponent) -> None:
    if component.entity_type not in _ENTITIES:
        raise Refused(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {component.entity_type}")
    if component.match_type not in (_EXACT, _DEFAULT, _ANY):
        raise Refused(ErrorCode.INVALID_REQUEST, f"Unknown match type {component.match_type}")
    if component.match_type == _EXACT and component.match is None:
        raise Refused(ErrorCode.INVALID_REQUEST, "Request specified MATCH_TYPE_EXACT, but set match string to null.")


async def alter_client_quotas(call: Call, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    """Serve AlterClientQuotas by refusing: a quota that is taken and not kept would be a lie."""
    return AlterClientQuotasResponse(
        entries=[
            AlterClientQuotasResponseEntry(
                error_code=ErrorCode.INVALID_REQUEST,
                error_message="This node keeps no quotas",
                entity=[
                    AlterClientQuotasResponseEntity(entity_type=each.entity_type, entity_name=each.entity_name)
                    async for each in call.pace.through(entry.entity, 0.5)
                ],
            )
            async for entry in call.pace.through(request.entries, 0.5)
        ]
    )


async def describe_acls(call: Call, request: DescribeAclsRequest) -> DescribeAclsResponse:
    """Serve DescribeAcls: nobody is asked what he may do.

    Who copies rules from cluster to cluster, as MirrorMaker does, then knows that there are none to copy.
    """
    del call, request
    why = "No Authorizer is configured on the broker"
    return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=why)


async def describe_scram_credentials(
    call: Call, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Serve DescribeUserScramCredentials: nobody has one."""
    results = [
        DescribeUserScramCredentialsResponseResult(
            user=user.name,
            error_code=ErrorCode.RESOURCE_NOT_FOUND,
            error_message=f"Attempt to describe a user credential that does not exist: {user.name}",
        )
        async for user in call.pace.through(request.users or (), 0.2)
    ]
    return DescribeUserScramCredentialsResponse(results=results)
