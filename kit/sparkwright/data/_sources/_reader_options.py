"""The options of the readers of each format, as a person sees them."""

from sparkwright.options import Option

ON_ERROR = Option(
    name="on_error",
    kind="choice",
    choices=("raise", "skip"),
    default="raise",
    label="What does not fit",
    help="raise: stop and name it. skip: leave it out and count it.",
)
_ONE_HOT = Option(
    name="one_hot",
    kind="flag",
    default=False,
    label="Classes as vectors of 0 and 1",
    help="Needed by the loss categorical_crossentropy; the sparse one takes numbers.",
)
_TABLES = (
    Option(
        name="missing",
        kind="choice",
        choices=("error", "skip", "fill"),
        default="error",
        label="Missing values",
        help="error: stop. skip: leave such rows out. fill: put the number below in place.",
    ),
    Option(
        name="missing_number",
        kind="float",
        default=0.0,
        label="Number in place of missing ones",
        help="Used with fill, among the features.",
    ),
    Option(
        name="weights",
        kind="text",
        optional=True,
        none_text="none",
        label="Column of example weights",
        help="Examples with a larger weight count more in the loss.",
        group="More options",
    ),
)
_DELIMITER = Option(
    name="delimiter",
    kind="text",
    default=",",
    label="Between values",
    help="One character, or the word tab or space.",
)
_QUOTE = Option(
    name="quote",
    kind="text",
    default='"',
    optional=True,
    none_text="no quotes",
    label="Around values",
    help="The sign around values that hold the delimiter.",
    group="More options",
)
_SKIP_LINES = Option(
    name="skip_lines",
    kind="int",
    default=0,
    minimum=0,
    label="Lines to leave out at the top",
    unit="lines",
    group="More options",
)

CSV = (
    Option(
        name="header",
        kind="flag",
        default=True,
        label="First line names the columns",
    ),
    _DELIMITER,
    *_TABLES[:2],
    ON_ERROR,
    _ONE_HOT,
    _QUOTE,
    _SKIP_LINES,
    Option(
        name="newlines_in_values",
        kind="flag",
        default=False,
        label="Values in quotes may go over several lines",
        help="Such files cannot be shared out in parts.",
        group="More options",
    ),
    Option(
        name="encoding",
        kind="text",
        default="utf-8",
        help="Of the text; older files are often latin-1.",
        group="More options",
    ),
    Option(
        name="missing_values",
        kind="text",
        default="NA NaN null",
        label="Texts for a missing value",
        help="Separated by spaces. Nothing at all counts too.",
        group="More options",
    ),
    _TABLES[2],
)
COLUMNAR = (*_TABLES[:2], ON_ERROR, _ONE_HOT, _TABLES[2])

IMAGES = (
    Option(
        name="height",
        kind="int",
        default=64,
        minimum=1,
        unit="pixels",
        help="Every image is stretched to this size.",
    ),
    Option(name="width", kind="int", default=64, minimum=1, unit="pixels"),
    Option(
        name="channels",
        kind="choice",
        choices=(3, 1),
        default=3,
        help="3: colour. 1: grey.",
    ),
    Option(
        name="label_from",
        kind="choice",
        choices=("folder", "name", "mask", "none"),
        default="folder",
        label="Label comes from",
        help="The file's folder, a part of its name, a mask (an image beside it), or nowhere.",
    ),
    Option(
        name="pattern",
        kind="text",
        default="_",
        label="Split names at",
        help="A regular expression; used with name: cat_017.jpg is a cat.",
        group="Labels",
    ),
    Option(
        name="position",
        kind="int",
        default=0,
        label="Part of the name",
        help="0 is the first, -1 the last.",
        group="Labels",
    ),
    Option(
        name="mask_folder",
        kind="text",
        optional=True,
        none_text="the image's own",
        label="Folder of masks",
        help="Its name, beside the image's folder.",
        group="Labels",
    ),
    Option(
        name="mask_suffix",
        kind="text",
        default="",
        label="End of masks' names",
        help="As in a_mask.png, which belongs to a.jpg.",
        group="Labels",
    ),
    Option(
        name="mask_binary",
        kind="flag",
        default=False,
        label="Masks are yes or no",
        help="Otherwise the value of a pixel is its class.",
        group="Labels",
    ),
    _ONE_HOT,
    ON_ERROR,
    Option(
        name="resize",
        kind="choice",
        choices=("nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"),
        default="bilinear",
        label="Filter",
        help="How pixels are mixed when the size changes.",
        group="More options",
    ),
    Option(
        name="scale",
        kind="flag",
        default=True,
        label="Numbers from 0 to 1",
        help="Otherwise from 0 to 255, in a quarter of the memory.",
        group="More options",
    ),
    Option(
        name="upright",
        kind="flag",
        default=False,
        label="Turn photos upright",
        help="As their camera says.",
        group="More options",
    ),
    Option(
        name="recursive",
        kind="flag",
        default=True,
        label="With sub-folders",
        group="More options",
    ),
)

SEQUENCES = (
    Option(
        name="header",
        kind="flag",
        default=False,
        label="First line names the columns",
        help="Otherwise they are f0, f1, and so on.",
    ),
    _DELIMITER,
    Option(
        name="label_per",
        kind="choice",
        choices=("step", "sequence"),
        default="step",
        label="A label for each",
        help="sequence: the last line's label counts for all of it.",
    ),
    Option(
        name="labels_url",
        kind="text",
        optional=True,
        none_text="in the same files",
        label="Files with the labels",
        help="A folder of their own, one file for each sequence.",
    ),
    Option(
        name="length",
        kind="int",
        minimum=1,
        optional=True,
        none_text="that of the longest",
        unit="steps",
        help="Shorter sequences are filled up, and masked.",
    ),
    Option(
        name="truncate",
        kind="flag",
        default=False,
        label="Cut longer ones",
        help="Otherwise they are an error.",
    ),
    ON_ERROR,
    _ONE_HOT,
    Option(
        name="align",
        kind="choice",
        choices=("equal_length", "start", "end"),
        default="equal_length",
        label="Features and labels",
        help="Where their lengths differ: refuse, begin together, or end together.",
        group="More options",
    ),
    Option(
        name="pair_by",
        kind="choice",
        choices=("name", "order"),
        default="name",
        label="Files belong together by",
        help="Used with files of labels.",
        group="More options",
    ),
    _SKIP_LINES,
    _QUOTE,
)

TFRECORD = (
    Option(
        name="compression",
        kind="choice",
        choices=("auto", "gzip", "zlib", "none"),
        default="auto",
        help="auto: as the names end.",
    ),
    ON_ERROR,
)
TABLE = (
    Option(
        name="weights",
        kind="text",
        optional=True,
        none_text="none",
        label="Column of example weights",
    ),
)
