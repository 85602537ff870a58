"""The registry of planning tools. A new tool is a module of this package and one entry here."""

from collections.abc import Mapping
from typing import Any

from ganeti_htools.planning.balancing.hbal import HBAL
from ganeti_htools.planning.groups.hregroup import HREGROUP
from ganeti_htools.planning.maintenance.hmaintain import HMAINTAIN
from ganeti_htools.planning.making_room import MAKE_ROOM
from ganeti_htools.planning.plan import Tool
from ganeti_htools.planning.repair.harep import HAREP
from ganeti_htools.planning.squeezing.hsqueeze import HSQUEEZE

TOOLS: Mapping[str, Tool[Any, Any]] = {
    tool.name: tool for tool in (HAREP, HBAL, HMAINTAIN, HREGROUP, HSQUEEZE, MAKE_ROOM)
}
