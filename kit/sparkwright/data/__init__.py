"""Examples: in memory, on the wire, and distributed over Spark."""

from typing import TYPE_CHECKING

from sparkwright._lazy import lazy_names as _lazy_names

if TYPE_CHECKING:
    from sparkwright.normalizers.kinds import (
        ImageScale as ImageScale,
        MinMaxScale as MinMaxScale,
        Normalizer as Normalizer,
        NormalizerChain as NormalizerChain,
        Standardize as Standardize,
    )
    from sparkwright.storage.listing import Entry as Entry
    from sparkwright.storage.model_reading import load_normalizer as load_normalizer

    from ._data_preview import (
        ColumnPreview as ColumnPreview,
        DataPreview as DataPreview,
        DataProblem as DataProblem,
        ImageThumbnail as ImageThumbnail,
    )
    from ._data_split import DataSplit as DataSplit
    from ._distributed import DistributedDataSet as DistributedDataSet
    from ._exported import (
        ExportedDataSet as ExportedDataSet,
        delete_export as delete_export,
    )
    from ._file_batches import FileBatch as FileBatch, read_file_batch as read_file_batch
    from ._filling import fill_missing as fill_missing
    from ._from_arrays import digits as digits, from_arrays as from_arrays
    from ._image_batches import (
        ImageBatchLoader as ImageBatchLoader,
        from_image_batches as from_image_batches,
        write_file_batches as write_file_batches,
    )
    from ._image_labels import MaskFile as MaskFile, PatternLabel as PatternLabel
    from ._images import from_images as from_images, read_images as read_images
    from ._join import join as join
    from ._join_sources import (
        ClassIndex as ClassIndex,
        OneHot as OneHot,
        records as records,
        sequences as sequences,
    )
    from ._local_data import LocalData as LocalData, TfData as TfData
    from ._manifest import Manifest as Manifest
    from ._map_file import MapFileReader as MapFileReader
    from ._minibatch_files import (
        from_minibatches as from_minibatches,
        read_minibatches as read_minibatches,
    )
    from ._previewing import (
        Folder as Folder,
        browse as browse,
        guess_source as guess_source,
        preview as preview,
    )
    from ._record_files import (
        from_map_file as from_map_file,
        from_sequence_file as from_sequence_file,
    )
    from ._record_writing import (
        write_map_file as write_map_file,
        write_sequence_file as write_sequence_file,
    )
    from ._sequences import (
        from_csv_sequences as from_csv_sequences,
        read_csv_sequences as read_csv_sequences,
    )
    from ._skipped import Skipped as Skipped, ValidationResult as ValidationResult
    from ._statistics import DataStatistics as DataStatistics
    from ._table_files import (
        from_arrow as from_arrow,
        from_csv as from_csv,
        from_parquet as from_parquet,
        read_arrow as read_arrow,
        read_csv as read_csv,
        read_parquet as read_parquet,
    )
    from ._table_schema import TableSchema as TableSchema
    from ._table_source import LocalTable as LocalTable
    from ._tfrecord import from_tfrecord as from_tfrecord
    from ._validation import validate as validate
    from .chunks import (
        batched as batched,
        from_bytes as from_bytes,
        row_count as row_count,
        to_bytes as to_bytes,
    )
    from .column_statistics import ColumnStatistics as ColumnStatistics, Histogram as Histogram
    from .dataset import DataSet as DataSet, MultiDataSet as MultiDataSet
    from .export import to_minibatch_files as to_minibatch_files
    from .from_spark import from_dataframe as from_dataframe, from_rdd as from_rdd
    from .in_memory import read_pandas as read_pandas
    from .loaders import MinibatchSource as MinibatchSource, numpy_loader as numpy_loader
    from .paths import list_paths as list_paths
    from .sources import DataSource as DataSource

__getattr__, __dir__ = _lazy_names(__name__)
