"""The page in a real browser: what its script, its policy and its styles make of it. `make test-browser`."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from tests.browser.chromium import Tab
from tests.integration.page.test_page import GONE, HOSTILE, KIND
from tests.support.builders import make_job
from tests.support.page_world import PageWorld
from tests.support.waiting import until
from tjworker.history.records import Entry

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("browser")]

VIEWS = ("/", f"/jobs/{KIND}/default/digits", "/cluster", "/history", "/history/team-a/uid-gone", "/nowhere")
DIGITS = make_job("digits").workers(2).status(phase="Running", message="all 2 replicas are running")


def furnished(page: PageWorld) -> dict[str, object]:
    made = dict(page.add(DIGITS))
    page.history.put([Entry("team-a", "uid-gone", GONE, 1e12)], 0)
    return made


@pytest.mark.parametrize("path", VIEWS)
def test_a_view_asks_for_nothing_from_outside_and_the_console_stays_empty(page: PageWorld, tab: Tab, path: str) -> None:
    furnished(page)
    tab.open(page.url + path)
    until("the title is there", lambda: tab.run("document.querySelector('h1') && document.title"))
    assert {urlsplit(url).netloc for url in tab.requested if not url.startswith("data:")} == {f"127.0.0.1:{page.port}"}
    assert [said for said in tab.problems if "status of 404" not in said] == []


def test_a_change_is_shown_without_a_reload_and_the_focus_stays(page: PageWorld, tab: Tab) -> None:
    made = furnished(page)
    tab.open(page.url)
    until("it is live", lambda: "Live" in str(tab.run("document.getElementById('freshness').textContent")))
    tab.run("document.querySelector('tbody a').focus(); window.same = 1")
    page.change(made, phase="Restarting", message="a replica is replaced")
    until("the new phase is shown", lambda: "Restarting" in str(tab.run("document.querySelector('tbody').textContent")))
    assert tab.run("window.same") == 1, "the document is the same"
    assert tab.run("document.activeElement.textContent") == "digits"


def test_while_the_server_is_away_the_page_keeps_what_it_had_and_says_how_old_it_is(page: PageWorld, tab: Tab) -> None:
    furnished(page)
    tab.open(page.url)
    until("it is live", lambda: "Live" in str(tab.run("document.getElementById('freshness').textContent")))
    page.lose_redis()
    until("it says so", lambda: " old: " in str(tab.run("document.getElementById('freshness').textContent")))
    assert "digits" in str(tab.run("document.querySelector('tbody').textContent"))


def test_a_view_that_is_refused_a_stream_is_read_again_and_is_live_once_there_is_a_place(
    page: PageWorld, tab: Tab
) -> None:
    made = furnished(page)
    page.site.watchers.most = 0
    tab.open(page.url)
    tab.run("AGAIN_MS")  # the script is loaded
    until("it is refused", lambda: tab.run("events.readyState === EventSource.CLOSED"))
    page.change(made, phase="Restarting")
    until("it is read again", lambda: "Restarting" in str(tab.run("document.querySelector('tbody').textContent")))
    assert "Live" not in str(tab.run("document.getElementById('freshness').textContent"))
    page.site.watchers.most = 1
    until("it is live", lambda: "Live" in str(tab.run("document.getElementById('freshness').textContent")))


def test_after_a_reading_a_view_rests_and_then_shows_what_has_changed_meanwhile(page: PageWorld, tab: Tab) -> None:
    furnished(page)
    tab.open(page.url)
    until("it is live", lambda: "Live" in str(tab.run("document.getElementById('freshness').textContent")))
    tab.run("window.reads = 0; window.read = fetch; fetch = (...given) => { reads += 1; return read(...given); }; 0")
    assert tab.run("reload().then(() => { reload(); reload(); return reads; })") == 1
    until("it is read again", lambda: tab.run("reads") == 2)


@pytest.mark.parametrize("path", ["/", f"/jobs/{KIND}/default/digits"])
def test_texts_of_a_job_run_no_script(page: PageWorld, tab: Tab, path: str) -> None:
    page.add(make_job("digits").workers(2).status(phase="Running", message=HOSTILE))
    tab.open(page.url + path)
    until("the text is shown", lambda: "window.hacked" in str(tab.run("document.body.textContent")))
    assert tab.run("window.hacked === undefined && !document.querySelector('main img, main script')") is True


@pytest.mark.parametrize("path", VIEWS)
@pytest.mark.parametrize("width", [400, 1280])
def test_no_view_is_wider_than_its_window(page: PageWorld, tab: Tab, path: str, width: int) -> None:
    furnished(page)
    tab.shape(width)
    tab.open(page.url + path)
    until("the title is there", lambda: tab.run("document.querySelector('h1') && document.title"))
    assert tab.run("document.documentElement.scrollWidth") <= width


def test_the_keyboard_reaches_the_content_first_and_then_every_link(page: PageWorld, tab: Tab) -> None:
    furnished(page)
    tab.open(page.url)
    reached = []
    for _ in range(16):
        tab.press("Tab")
        reached.append(tab.run("(document.activeElement.textContent || document.activeElement.name).trim()"))
    assert reached[0] == "Skip to content"
    for name in ("Jobs", "Cluster", "History", "Flower", "Filter", "digits"):
        assert name in reached


UNNAMED = """[...document.querySelectorAll(
  'input:not([type=hidden]), select, button, progress, meter, a, section, nav, [role=region]')]
  .filter((one) => !(one.getAttribute('aria-label') || (one.labels && one.labels.length) || one.textContent.trim()))
  .map((one) => one.outerHTML)"""


@pytest.mark.parametrize("path", VIEWS)
def test_a_screen_reader_finds_landmarks_names_and_table_headers(page: PageWorld, tab: Tab, path: str) -> None:
    furnished(page)
    tab.open(page.url + path)
    until("the title is there", lambda: tab.run("document.querySelector('h1') && document.title"))
    assert tab.run("document.documentElement.lang") == "en"
    assert tab.run("['main', 'h1', 'header nav'].map((one) => document.querySelectorAll(one).length)") == [1, 1, 1]
    assert tab.run(UNNAMED) == []
    assert tab.run("[...document.querySelectorAll('th')].every((one) => one.scope)") is True


FAINT = """(() => {
  const linear = (n) => (n / 255 <= 0.03928 ? n / 255 / 12.92 : ((n / 255 + 0.055) / 1.055) ** 2.4);
  const light = (colour) => {
    const [r, g, b] = colour.match(/[0-9.]+/g).slice(0, 3).map(Number).map(linear);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (one) => {
    for (let at = one; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (colour !== 'rgba(0, 0, 0, 0)') { return colour; }
    }
    return 'rgb(255, 255, 255)';
  };
  const ratio = (one) => {
    const [low, high] = [light(getComputedStyle(one).color), light(ground(one))].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  };
  return [...document.querySelectorAll('main p, main a, td, th, .badge, header a, label, h1, h2, button')]
    .filter((one) => one.textContent.trim() && one.getClientRects().length && ratio(one) < 4.5)
    .map((one) => one.outerHTML.slice(0, 120));
})()"""


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("path", VIEWS)
def test_every_text_stands_out_from_its_ground(page: PageWorld, tab: Tab, path: str, dark: bool) -> None:
    """WCAG 2.2, 1.4.3: a contrast of 4.5 to 1."""
    furnished(page)
    tab.shape(1280, dark=dark)
    tab.open(page.url + path)
    until("the title is there", lambda: tab.run("document.querySelector('h1') && document.title"))
    assert tab.run(FAINT) == []
