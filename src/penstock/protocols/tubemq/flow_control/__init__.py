"""Flow control: how fast masters and operators let consumers read. Pure: the time comes in as milliseconds since 1970.

Source: Apache InLong TubeMQ 2.x, ``FlowCtrlRuleHandler`` and its users on both sides.
"""

from penstock.protocols.tubemq.flow_control.control import FlowControl as FlowControl
from penstock.protocols.tubemq.flow_control.control import Holder as Holder
from penstock.protocols.tubemq.flow_control.pace import Pace as Pace
from penstock.protocols.tubemq.flow_control.pace import Polled as Polled
from penstock.protocols.tubemq.flow_control.pace import timer_of as timer_of
from penstock.protocols.tubemq.flow_control.quota import Grant as Grant
from penstock.protocols.tubemq.flow_control.quota import Quota as Quota
from penstock.protocols.tubemq.flow_control.rules import DataLimit as DataLimit
from penstock.protocols.tubemq.flow_control.rules import Rules as Rules
from penstock.protocols.tubemq.flow_control.rules import parse_rules as parse_rules

__all__ = ["DataLimit", "FlowControl", "Grant", "Holder", "Pace", "Polled", "Quota", "Rules", "parse_rules", "timer_of"]
