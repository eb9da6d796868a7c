"""The manifest, the sources beside it, and the planner agree."""

import json
import shutil

import pytest

from cake_tune.cuda.manifest import kernels_folder, load_manifest, read_manifest
from cake_tune.cuda.occupancy import MULTIPROCESSORS
from cake_tune.cuda.requirements import arch_of
from cake_tune.cuda.specialisation import every_specialisation
from cake_tune.errors import CakeTuneError, ContractError, DeviceUnfitError
from cake_tune.mla import cache
from cake_tune.planner import shape

MANIFEST = load_manifest()
RAW = json.loads((kernels_folder() / "manifest.json").read_text())


def test_planner_and_cache_have_the_geometry_of_the_kernels():
    """Every constant that Python repeats is the manifest's."""
    geometry = RAW["geometry"]
    assert geometry["heads_per_tile"] == shape.HEADS_PER_TILE
    assert geometry["chunk_width"] == shape.CHUNK
    assert geometry["max_chunks_per_block"] == shape.MAX_CHUNKS_PER_BLOCK
    assert tuple(geometry["decode_heads"]) == shape.HEAD_COUNTS
    assert {int(tiles): set(heads) for tiles, heads in geometry["decode_head_tiles"].items()} == {
        2: set(shape.DECODE_TWO_TILE_HEADS)
    }
    assert {int(heads): tuple(tiles) for heads, tiles in geometry["prefill_head_tiles"].items()} == shape.PREFILL_TILES
    assert (geometry["latent_dims"], geometry["nope_dims"], geometry["rope_dims"]) == (
        512,
        cache.NOPE_DIM,
        cache.ROPE_DIM,
    )
    assert (geometry["data_bytes"], geometry["scale_bytes"]) == (cache.DATA_BYTES, cache.SCALE_BYTES)
    assert (geometry["row_bytes"], geometry["scale_group"]) == (cache.RECORD_BYTES, cache.GROUP)


def test_manifest_names_every_source_and_header():
    """No file is compiled that the manifest does not know."""
    folder = kernels_folder()
    assert {path.name for path in folder.glob("*.cuh")} == set(RAW["headers"])
    assert {path.name for path in folder.glob("*.cu")} == {source.file for source in MANIFEST.sources.values()}


def test_default_variants_run_everything_that_the_planner_can_ask_for():
    """Each head tiles of each kernel has a default on each architecture, and the occupancy limits know them all."""
    for arch in MANIFEST.archs:
        for tiles in (1, 2):
            assert MANIFEST.default_variant(arch, "decode", tiles).head_tiles == tiles
        for tiles in (1, 2, 4):
            assert MANIFEST.default_variant(arch, "prefill", tiles).head_tiles == tiles
    assert set(MULTIPROCESSORS) == set(MANIFEST.archs)


def test_every_specialisation_gives_each_macro_a_value():
    """Every program of attention gets the same macros, the two modes and the two cache counts each appear."""
    attention = [one for one in every_specialisation(MANIFEST, "sm_120a") if one.variant is not None]
    macros = [dict(one.macros(MANIFEST)) for one in attention]
    assert len({tuple(sorted(one)) for one in macros}) == 1
    assert {one["CAKE_QK_NVFP4"] for one in macros} == {one["CAKE_DUAL_CACHE"] for one in macros} == {"0", "1"}
    assert len({str(one) for one in attention}) == len(attention)


def test_only_defaults_are_a_part_of_every_specialisation():
    """What is built by default is a proper part of what can be built where there are more variants than defaults."""
    everything = set(every_specialisation(MANIFEST, "sm_90a"))
    defaults = set(every_specialisation(MANIFEST, "sm_90a", only_defaults=True))
    assert defaults < everything


def test_unknown_variant_lists_the_ones_that_can_run():
    """A variant of another kernel or head count is refused, and the message names those that fit."""
    for name in ("nonsense", MANIFEST.default_variant("sm_120a", "prefill", 4).name):
        with pytest.raises(ContractError, match=f"variant: expected one of .*got {name!r}"):
            MANIFEST.variant(name, "sm_120a", "decode", 1)
    fitting = MANIFEST.default_variant("sm_120a", "decode", 1)
    assert MANIFEST.variant(fitting.name, "sm_120a", "decode", 1) == fitting


def test_identity_changes_with_any_source(tmp_path):
    """A changed header, source or manifest is another kernel; a note beside them is not."""
    copy = tmp_path / "kernels"
    shutil.copytree(kernels_folder(), copy)
    before = read_manifest(copy).identity
    assert before == read_manifest(kernels_folder()).identity
    (copy / "NOTES.md").write_text("changed")
    assert read_manifest(copy).identity == before
    seen = {before}
    for name in ("config.cuh", "merge.cu", "manifest.json"):
        with (copy / name).open("a") as file:
            file.write("\n")
        seen.add(read_manifest(copy).identity)
    assert len(seen) == 4


def test_another_schema_is_refused(tmp_path):
    """A manifest of a later schema is not half understood."""
    (tmp_path / "manifest.json").write_text(json.dumps(RAW | {"schema": 99}))
    with pytest.raises(CakeTuneError, match="expected schema 1, got 99"):
        read_manifest(tmp_path)


@pytest.mark.parametrize("capability", [(9, 0), (12, 0), (12, 1)])
def test_supported_devices_have_an_architecture(capability):
    """The three targets are found by compute capability."""
    assert arch_of(capability, "GPU") in MANIFEST.archs


@pytest.mark.parametrize("capability", [(8, 0), (10, 0), (13, 0)])
def test_other_devices_are_told_the_architectures(capability):
    """A GPU that cannot run the kernels is named together with those that can."""
    with pytest.raises(DeviceUnfitError, match=r"Some GPU: .*sm_90a, sm_120a, sm_121a.*sm_\d+"):
        arch_of(capability, "Some GPU")
