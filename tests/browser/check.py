"""The page, used as a person uses it, in a real browser. Run by scripts/browser-check.

    check.py URL PICTURES AXE BINARY AWAY

AWAY is the address of a model server that nobody runs yet; BINARY can.
"""

import contextlib
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.parse

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from browser import Browser, api

URL, PICTURES, AXE, BINARY, AWAY = sys.argv[1:6]
VIEWS = ["library", "hierarchy", "ask", "jobs", "status"]
MOST_BYTES, MOST_PAINT_MS, MOST_SHIFT = 200 * 1024, 300, 0.1
HOSTILE = "<img src=x onerror=\"document.title='broken'\"><script>document.title='broken'</script>"

b = Browser(URL, PICTURES, AXE)
b.driver.set_script_timeout(30)


def cards(state):
    return b.all(f".job-card[data-state='{state}']")


def source_named(name):
    return next(source for source in api(URL, "GET", "/v1/sources?limit=500")["items"] if source["filename"] == name)


def sound():
    """What axe-core finds in what is shown now, a dialogue perhaps."""
    violations = b.axe_violations()
    assert not violations, "\n".join(violations)


def a_first_visit_files_the_sample():
    b.open("")
    b.sees("A memory that shows its work")
    assert b.driver.title == "Library · memoir", b.driver.title
    b.picture("first-visit-light")
    sound()
    b.scheme("dark")
    sound()
    b.picture("first-visit-dark")
    b.scheme("light")
    b.js("""window.shift = 0; new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shift += entry.value;
    }).observe({type: 'layout-shift', buffered: false})""")
    b.click("button", "File the sample")
    b.until("eight filed documents", lambda: len(cards("succeeded")) == 8)
    b.until("eight rows", lambda: len(b.all("table.sources tbody tr")) == 8)
    b.until("every size", lambda: all("B" in cell.text for cell in b.all("td[data-name='Size']")))
    shift = b.js("return window.shift")
    assert shift < MOST_SHIFT, f"the page moved by {shift} while the sample was filed"
    b.picture("sample-filed")


def a_question_of_the_sample_leads_to_its_passage():
    b.click(".try a", "ferry")
    b.one(".strategy :checked[value='wide_branch']")
    b.until("the estimate", lambda: "At most" in b.one(".bound").text)
    b.click("button.primary", "Ask")
    b.sees("9:15 and 14:30")
    assert len(b.all(".walk-level")) == 4, "three levels and what was read"
    assert b.all(".option.chosen .rank"), "the chosen ones show their rank"
    assert "tokens" in b.one(".walk-level .walk-cost").text
    b.click("summary", "The request as curl")
    assert "/v1/queries" in b.one("pre.curl").text and "ferry" in b.one("pre.curl").text
    b.picture("answer-light")
    sound()
    b.scheme("dark")
    sound()
    b.picture("answer-dark")
    b.scheme("light")
    address = b.driver.current_url
    assert "#/ask/" in address, address
    number = b.one("a.cite").get_attribute("data-cite")
    b.click("a.cite")
    passage = b.one(".passage.found")
    assert passage.get_attribute("data-chunk") == number
    assert "The ferry to Sør leaves at 9:15" in passage.text
    assert b.focused() == passage, "the passage has the focus"
    b.picture("passage-found")
    sound()
    b.driver.back()
    b.sees("9:15 and 14:30")


def a_question_is_replayed_and_compared():
    b.click("button", "Replay as recorded")
    b.sees("Identical: the same walk")
    b.click("button", "Replay live")
    b.sees("Asked again, compared with then")
    b.sees("Read by both")
    b.open("#/ask")
    b.click(".asked a", "ferry")
    b.sees("Receipts keep the walk, not the words")


def a_question_without_an_answer_says_what_to_do():
    b.open("#/ask")
    b.write("textarea.question", "Is there anything?")
    b.click("summary", "More settings")
    b.write("input[name='tags']", "no-such-label")
    b.picture("ask-settings")
    sound()
    b.click("button.primary", "Ask")
    b.sees("No passages were found")
    b.sees("ask wider")
    return [404]


def pasted_text_is_kept_word_for_word():
    b.open("#/library")
    b.click("button", "Paste text")
    b.click("dialog button.primary", "File it")
    b.until("the error of the field", lambda: "empty" in b.one("dialog .field-error").text)
    b.write("dialog textarea", f"# Marmalade\n\nCut the oranges thinly. {HOSTILE} Boil them for two hours.\n")
    b.write("dialog input[name='path']", "/notes/marmalade.md")
    b.write("dialog input[name='tags']", "kitchen, winter")
    b.picture("paste")
    sound()
    b.click("dialog button.primary", "File it")
    b.click("table.sources a", "marmalade.md")
    b.sees("Boil them for two hours")
    b.sees("onerror")
    b.click(".tabs a", "Text")
    b.sees("<script>")
    assert b.driver.title == "marmalade.md · memoir", b.driver.title
    assert not b.all("main img"), "a text was read as HTML"
    return [422]


def a_dropped_file_is_filed():
    b.open("#/library")
    b.one(".drop")
    b.js("""const data = new DataTransfer();
        data.items.add(new File(['The cellar key hangs behind the clock.'], 'cellar.txt', {type: 'text/plain'}));
        data.items.add(new File(['binary'], 'picture.png', {type: 'image/png'}));
        const zone = document.querySelector('.drop');
        for (const kind of ['dragenter', 'dragover', 'drop'])
            zone.dispatchEvent(new DragEvent(kind, {dataTransfer: data, bubbles: true, cancelable: true}));""")
    b.one("table.sources a", "cellar.txt")
    b.until("the problem of the other file", lambda: "picture.png" in b.one(".refused").text)
    b.sees("Convert it to text")
    b.picture("dropped")
    sound()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "attic.md")
        path.write_text("# Attic\n\nThe old radio stands in the attic.\n")
        b.all("input[type='file']")[0].send_keys(str(path))
        b.one("table.sources a", "attic.md")
    return [415]


def the_helper_dialogue_leads_from_errors_to_a_confirmation():
    b.open("#/library")
    b.click("button", "Paste text")
    b.write("dialog textarea", "Dear Emil, the roof is mended. Yours, Ada.")
    b.write("dialog input[name='path']", "/letters/roof.txt")
    b.click("dialog .check")
    b.click("dialog button.primary", "File it")
    b.click(".job-card button", "Describe it")
    b.write("dialog input[name='date']", "tomorrow")
    b.click("dialog button", "Preview")
    for name in ["author", "topic", "description"]:
        b.until(f"the error of {name}", lambda: "required" in b.one(f".field-error[data-for='{name}']").text)
    assert "2025-01-31" in b.one(".field-error[data-for='date']").text
    b.picture("helper-errors")
    sound()
    for name, words in [("author", "Ada"), ("date", "1931-04-02"), ("topic", "the roof"), ("description", "A letter.")]:
        b.write(f"dialog [name='{name}']", words)
    b.click("dialog button", "Preview")
    b.until("the paragraph", lambda: "Ada" in b.one("dialog .preview").text)
    b.sees("tokens in every prompt")
    b.picture("helper-preview")
    sound()
    b.click("dialog button", "Edit")
    b.write("dialog [name='description']", "A letter to Emil.")
    b.click("dialog button", "Preview")
    b.until("the other paragraph", lambda: "Emil" in b.one("dialog .preview").text)
    b.click("dialog button", "Confirm and go on")
    b.one("table.sources a", "roof.txt").click()
    b.click(".tabs a", "Description")
    b.sees("A letter to Emil.")
    b.sees("written by you")
    b.click("button", "Have it written anew")
    b.sees("written by a model")
    b.picture("description")
    sound()
    return [422]


def a_waiting_job_can_be_cancelled():
    b.open("#/library")
    b.click("button", "Paste text")
    b.write("dialog textarea", "Never mind.")
    b.click("dialog .check")
    b.click("dialog button.primary", "File it")
    b.click(".job-card button", "Describe it")
    b.click("dialog button", "Cancel the job")
    b.sees("nothing of it remains")


def named(cell):
    return cell.find_element("css selector", "title").get_attribute("textContent").split(":")[0]


def the_hierarchy_zooms_by_mouse_and_by_keyboard():
    b.open("#/hierarchy")
    b.one(".icicle .cell")
    b.picture("hierarchy")
    first = b.until("a category", lambda: next(cell for cell in b.all(".icicle .cell.level-1")))
    name = named(first)
    ActionChains(b.driver).move_to_element_with_offset(first.find_element("css selector", "rect"), 0, 0).click().perform()
    b.until("the way", lambda: b.one(".crumbs [aria-current]").text == name)
    assert named(b.focused()) == name
    b.picture("hierarchy-zoomed")
    sound()
    b.press(Keys.ESCAPE)
    b.until("out again", lambda: b.one(".crumbs [aria-current]").text == "Everything")
    b.press(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    leaf = named(b.focused())
    b.press(Keys.ENTER)
    b.until("the leaf", lambda: b.one(".crumbs [aria-current]").text == leaf)
    b.until("its passages", lambda: b.all(".category-passages .passage"))
    outline = b.js("return getComputedStyle(document.activeElement.querySelector('rect')).strokeWidth")
    assert outline == "2.5px", f"the focus is not to be seen: {outline}"
    b.click(".crumbs button", "Everything")
    b.write("input[type='search']", "boats")
    b.click(".category-list button", "Ships and boats")
    b.sees("lighthouse")
    b.click(".category-passages .passage-head a", "harbour-town.md")
    b.one(".passage.found")
    b.sees("Two days in Varnhaven")


def a_document_can_be_left_out_of_questions():
    b.open("#/library")
    row = f"tr[data-source='{source_named('coffee.md')['id']}'] "
    b.click(row + ".switch")
    b.sees("Questions leave coffee.md out")
    assert source_named("coffee.md")["eligible"] is False
    b.open("#/library")
    b.until("the switch is off", lambda: b.one(row + ".switch").get_attribute("aria-checked") == "false")
    b.one(row + ".switch").send_keys(Keys.SPACE)
    b.sees("Questions use coffee.md again")
    assert source_named("coffee.md")["eligible"] is True


def a_change_that_somebody_else_made_is_not_overwritten():
    b.open("#/library")
    source = source_named("sleep.md")
    switch = f"tr[data-source='{source['id']}'] .switch"
    b.one(switch)
    api(URL, "PATCH", f"/v1/sources/{source['id']}", {"tags": source["tags"] + ["night"]})
    b.click(switch)
    b.sees("has changed meanwhile")
    assert source_named("sleep.md")["eligible"] is True


def two_versions_are_compared():
    b.open(f"#/library/{source_named('marmalade.md')['id']}/versions")
    b.click("button", "New version")
    text = b.one("dialog textarea")
    b.until("the text of now", lambda: "oranges" in text.get_attribute("value"))
    text.clear()
    text.send_keys("# Marmalade\n\nCut the oranges thickly.\nBoil them for three hours.\n")
    b.click("dialog button.primary", "File the new version")
    b.until("what was added", lambda: "thickly" in b.one(".diff .plus").text)
    assert "<script>" in b.one(".diff .minus").text
    assert len(b.all(".timeline .version")) == 2
    slider = b.one("#as-of")
    slider.send_keys(Keys.ARROW_LEFT)
    b.until("the first version", lambda: "version 1" in b.one(".as-of output").text and "oranges thinly" in b.one(".diff-place").text)
    assert b.focused() == slider, "the slider keeps the focus"
    slider.send_keys(Keys.ARROW_RIGHT)
    b.until("what was added", lambda: "thickly" in b.one(".diff .plus").text)
    b.picture("versions-light")
    sound()
    b.scheme("dark")
    sound()
    b.picture("versions-dark")
    b.scheme("light")


def a_document_is_deleted_after_a_question():
    b.open(f"#/library/{source_named('cellar.txt')['id']}")
    b.click("button.danger", "Delete")
    b.click("dialog button", "Keep it")
    b.click("button.danger", "Delete")
    b.click("dialog button.danger", "Delete for good")
    b.until("the library", lambda: b.all("table.sources tbody tr"))
    assert "cellar.txt" not in b.one("table.sources").text


@contextlib.contextmanager
def model_server(*arguments):
    """The model server that was away."""
    place = urllib.parse.urlparse(AWAY)
    command = [BINARY, "scripted-model", "--listen", place.netloc, *arguments]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        def listens():
            with socket.socket() as line:
                return line.connect_ex((place.hostname, place.port)) == 0
        b.until("the model server", listens)
        yield
    finally:
        server.terminate()
        server.wait()


def a_failed_job_says_why_and_is_tried_again():
    path = {"text": "The well is deep.", "path": "/notes/well.txt", "options": {"model": "away:some-model"}}
    job = api(URL, "POST", "/v1/ingestions", {**path, "wait": True})
    assert job["state"] == "failed", job
    b.open("#/jobs?state=failed")
    row = f"tr[data-job='{job['id']}'] "
    b.until("what to do", lambda: job["error"]["remediation"] in b.one(row + ".job-what").text)
    b.picture("job-failed")
    sound()
    with model_server():
        b.click(row + "button", "Try again")
        b.until("it is done", lambda: "Done" in b.one(row + ".badge").text)
        b.click(row + "a.name")
        b.one("section[aria-label='Batches']")
        b.one("section[aria-label='Calls']")
        b.picture("job")


def a_running_job_is_watched_and_cancelled():
    text = "\n\n".join(f"Paragraph {n}. " + "The tide comes in twice a day and leaves shells on the sand. " * 30 for n in range(30))
    with model_server("--latency-ms", "300"):
        b.open("#/library")
        job = api(URL, "POST", "/v1/ingestions", {"text": text, "path": "/notes/tide.txt", "options": {"model": "away:some-model"}})
        b.open("#/library")
        card = f".job-card[data-job='{job['id']}'] "
        b.until("its phase", lambda: "level 1 of 3" in b.one(card).text)
        b.until("its numbers", lambda: "calls" in b.one(card + ".job-numbers").text)
        bar = b.one(card + "[role='progressbar']")
        b.until("progress", lambda: int(bar.get_attribute("aria-valuenow")) > 15)
        b.picture("job-running")
        b.click(card + "button", "Cancel")
        b.until("it is cancelled", lambda: "Cancelled" in b.one(card + ".badge").text)
    assert not [source for source in api(URL, "GET", "/v1/sources?limit=500")["items"] if source["filename"] == "tide.txt"]


def a_model_is_tried_and_spend_is_shown():
    b.open("#/status")
    b.sees("Ready")
    b.one(".chart rect")
    b.click("button[aria-label='Try it: local']")
    b.sees("Answered in")


def another_space_is_another_library():
    b.open("#/library")
    b.click("#place")
    b.write("dialog input[type='text']", "other")
    b.write("dialog input[type='password']", "a-key-that-is-not-needed")
    sound()
    b.click("dialog button.primary", "Use")
    b.sees("A memory that shows its work")
    assert "a-key" not in b.driver.current_url and b.one("#place-name").text == "other"
    b.open("#/ask")
    b.until("the request", lambda: b.js("return document.querySelector('pre.curl')?.textContent"))
    told = b.js("return document.querySelector('pre.curl').textContent")
    assert "X-Memoir-Space: other" in told and "$MEMOIR_API_KEY" in told and "a-key" not in told, told
    b.js("localStorage.clear()")


def what_is_not_there_is_said_in_the_words_of_the_service():
    b.open("#/library/nothing")
    b.one(".problem .problem-detail")
    b.one(".problem .problem-help")
    return [400, 404]


def the_colour_scheme_is_chosen_and_kept():
    b.open("#/library")
    b.one("table.sources")
    light = b.js("return getComputedStyle(document.body).backgroundColor")
    b.click("#theme")
    dark = b.js("return getComputedStyle(document.body).backgroundColor")
    assert light != dark
    b.open("#/library")
    assert b.js("return getComputedStyle(document.body).backgroundColor") == dark
    b.js("localStorage.clear()")


def everything_is_reached_by_keyboard():
    b.open("#/library")
    b.one("table.sources a")
    b.press(Keys.TAB)
    assert b.focused().text == "Skip to the content", b.focused().text
    b.press(Keys.ENTER)
    assert b.focused().get_attribute("id") == "main"
    seen = []
    for _ in range(40):
        b.press(Keys.TAB)
        seen.append(b.js("const e = document.activeElement; return e.getAttribute('aria-label') || e.textContent || e.tagName"))
    for name in ["Only documents with this label", "sourdough.md", "Questions may use sourdough.md"]:
        assert name in seen, (name, seen)


def every_view_is_readable_at_every_width_in_both_schemes():
    source = source_named("harbour-town.md")["id"]
    job = api(URL, "GET", "/v1/jobs?limit=1")["items"][0]["id"]
    asked = api(URL, "GET", "/v1/queries?limit=100")["items"]
    answered = next(item["id"] for item in asked if item["state"] == "succeeded")
    pages = {name: f"#/{name}" for name in VIEWS} | {
        "document": f"#/library/{source}", "document-versions": f"#/library/{source}/versions",
        "document-description": f"#/library/{source}/description", "job": f"#/jobs/{job}", "receipt": f"#/ask/{answered}",
    }
    wrong = []
    for name, address in pages.items():
        b.size(1280, 900)
        b.open(address)
        b.one("main h1")
        b.until("the whole view", lambda: not b.all("[aria-busy]") and b.js("return document.querySelector('.view').textContent.length > 40"))
        time.sleep(0.3)
        for scheme in ["light", "dark"]:
            b.scheme(scheme)
            for width, height in [(360, 740), (1280, 900), (2560, 1300)]:
                b.size(width, height)
                time.sleep(0.1)
                inner, wide = b.js("return [innerWidth, document.scrollingElement.scrollWidth]")
                if wide > inner:
                    wrong.append(f"{name} at {width} px is {wide} px wide")
                if name in VIEWS or name in ("document", "receipt"):
                    b.picture(f"{name}-{width}-{scheme}")
                if width != 2560:
                    wrong += [f"{name} {width} {scheme}: {violation}" for violation in b.axe_violations()]
        b.note_requests()
    b.scheme("light")
    b.size(1280, 900)
    assert not wrong, "\n".join(dict.fromkeys(wrong))


def the_page_is_light_and_quick():
    paints = []
    for _ in range(3):
        b.open("#/library")
        b.one("table.sources")
        paints.append(b.js("return performance.getEntriesByName('first-contentful-paint')[0].startTime"))
    for name in VIEWS[1:]:
        b.js("location.hash = arguments[0]", f"#/{name}")
        b.one(f".view-{name} h1")
    b.js(f"location.hash = '#/library/{source_named('sleep.md')['id']}/versions'")
    b.one(".timeline")
    size = b.js("""return [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
        .filter((entry) => !new URL(entry.name).pathname.match(/^.(v1|health|docs)/))
        .reduce((sum, entry) => sum + entry.decodedBodySize, 0)""")
    print(f"   {size / 1024:.0f} KiB, first paint after {', '.join(f'{p:.0f}' for p in paints)} ms")
    assert 50 * 1024 < size < MOST_BYTES, size
    # The machine may be busy; the page is as quick as its best paint.
    assert min(paints) < MOST_PAINT_MS, paints


def nothing_was_asked_of_other_hosts():
    b.note_requests()
    assert not b.other_hosts, b.other_hosts


STEPS = [
    a_first_visit_files_the_sample, a_question_of_the_sample_leads_to_its_passage, a_question_is_replayed_and_compared,
    a_question_without_an_answer_says_what_to_do, pasted_text_is_kept_word_for_word, a_dropped_file_is_filed,
    the_helper_dialogue_leads_from_errors_to_a_confirmation, a_waiting_job_can_be_cancelled,
    the_hierarchy_zooms_by_mouse_and_by_keyboard, a_document_can_be_left_out_of_questions,
    a_change_that_somebody_else_made_is_not_overwritten, two_versions_are_compared,
    a_document_is_deleted_after_a_question, a_failed_job_says_why_and_is_tried_again, a_running_job_is_watched_and_cancelled, a_model_is_tried_and_spend_is_shown,
    another_space_is_another_library, what_is_not_there_is_said_in_the_words_of_the_service,
    the_colour_scheme_is_chosen_and_kept, everything_is_reached_by_keyboard,
    every_view_is_readable_at_every_width_in_both_schemes, the_page_is_light_and_quick, nothing_was_asked_of_other_hosts,
]

failures = 0
wanted = sys.argv[6:]
steps = [step for step in STEPS if not wanted or any(word in step.__name__ for word in wanted)]
for step in steps:
    name, began = step.__name__.replace("_", " "), time.monotonic()
    try:
        expected = step() or []
        errors = b.console_errors(expected)
        assert not errors, f"errors in the console: {errors}"
        b.note_requests()
        print(f"ok   {name} ({time.monotonic() - began:.1f} s)", flush=True)
    except Exception as error:
        failures += 1
        print(f"FAIL {name}\n{error}" if isinstance(error, AssertionError) and str(error) else f"FAIL {name}\n{traceback.format_exc()}", flush=True)
        b.picture(f"failed-{step.__name__}")
        b.console_errors()
        b.open("")
        b.scheme("light")
        b.size(1280, 900)
b.close()
print(f"{len(steps) - failures} passed, {failures} failed; pictures in {PICTURES}")
sys.exit(1 if failures else 0)
