import re

NOTEBOOK = "05_images.ipynb"
SHORTER = {"epochs=20": "epochs=12"}
TRAIN, TEST = 1_437, 360  # of scikit-learn's 1,797 digits every fifth is kept back


def test_two_workers_learn_from_packed_image_files(results):
    assert results["workers"] == 2
    assert results["accuracy"] > 0.93  # 0.957 ± 0.003 over eight seeds
    assert results["classes"] == [str(digit) for digit in range(10)]
    assert results["files"] == -(-(TRAIN + 1) // 64) + -(-TEST // 64)


def test_all_images_are_read_and_invalid_files_are_counted(results, html):
    assert results["examples"] == TRAIN
    assert results["skipped"] == {"damaged image": 1}
    assert "7/broken.png" in re.sub(r"\s+", "", html)


def test_the_hardest_images_are_shown_worst_first(results, html):
    losses = [one["loss"] for one in results["hardest"]]
    assert losses == sorted(losses, reverse=True)
    cards = re.search(r"<ol [^>]*sparkwright-worst-list.*?</ol>", html, re.DOTALL)
    assert cards[0].count("<img") == len(losses) == 12
    shown = re.findall(r"<div>is <b>(\d)</b></div>", cards[0])
    assert shown == [str(one["digit"]) for one in results["hardest"]]


def test_the_report_has_its_result_on_top(html, results):
    assert f"<strong>Result: {results['accuracy']:.1%} of {TEST} test images" in html
    assert "1 invalid file was skipped" in html
    assert "await run" not in html  # code is left out
