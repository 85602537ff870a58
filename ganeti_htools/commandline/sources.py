"""Sources of the cluster and its load, from a command line."""

from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.sources.dynamic_load import DynamicLoad
from ganeti_htools.sources.source import Source


def source_of(line: CommandLine) -> Source:
    """Take the source of the cluster. Raises HtoolsError if the options name several."""
    given = bool(line.master), line.luxi is not None, line.text_data is not None, line.daemon is not None
    if given.count(True) > 1:
        others = "luxi, daemon," if line.daemon is not None else "luxi,"
        raise HtoolsError(f"Only one of the rapi, {others} and data files options should be given.")
    return Source(
        daemon=line.daemon,
        rapi=line.master,
        luxi=line.luxi,
        simulate=line.simulate,
        text=line.text_data,
        request=line.ialloc_src,
        rapi_ca=line.rapi_ca,
        rapi_credentials=line.rapi_credentials,
        state_of_record=line.state_of_record,
        ask_storage=line.ask_storage,
        ganeti_version=line.ganeti_version,
        load=line.load != "none",
    )


def dynamic_load_of(line: CommandLine) -> DynamicLoad:
    return DynamicLoad(
        utilisation=line.dynu_file,
        ignore=line.ignore_dynu,
        mond=line.mond,
        mond_data=line.mond_data,
        xen=line.mond_xen,
        all_required=line.exit_on_missing_mond_data,
    )
