"""The library: the sample, ingesting text, the helper dialogue, versions, deleting."""

import pathlib
import sqlite3
import tempfile

from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from browser import api
from setting import URL, b, cards, other_service, sound, source_named

MAX_SHIFT = 0.1
HOSTILE = "<img src=x onerror=\"document.title='broken'\"><script>document.title='broken'</script>"


def a_first_visit_ingests_the_sample():
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
    b.click("button", "Ingest the sample")
    # The cards replace the welcome, as the user asked; after that, nothing may move.
    b.until("eight cards", lambda: len(b.all(".job-card")) == 8)
    b.js("return new Promise((done) => setTimeout(() => { window.shift = 0; done(); }, 200))")
    b.until("eight filed sources", lambda: len(cards("succeeded")) == 8)
    b.until("eight rows", lambda: len(b.all("table.sources tbody tr")) == 8)
    b.until("every size", lambda: all("B" in cell.text for cell in b.all("td[data-name='Size']")))
    shift = b.js("return window.shift")
    assert shift < MAX_SHIFT, f"the page moved by {shift} while the sample was filed"
    b.picture("sample-filed")
    assert "Topic:" in b.one("table.sources .about").text, "the helper comes with the list"
    first = b.all("table.sources tbody tr a.name")[0].text
    assert first == api(URL, "GET", "/v1/sources?newest_first=true&limit=1")["items"][0]["filename"], "newest first"
    asked = b.js("return performance.getEntriesByType('resource').filter((entry) => /sources.[0-9a-f-]{36}/.test(entry.name)).length")
    assert asked == 0, f"{asked} requests for single sources"
    b.click("a", "Hierarchy")
    b.one(".icicle .cell")
    b.click("a", "Library")
    b.until("the finished jobs are folded", lambda: "8 finished" in b.one(".finished-jobs summary").text)
    b.click(".clear-jobs")
    b.until("they are gone", lambda: not b.all(".job-card"))


def the_library_is_sorted_and_filtered_by_tag():
    names = lambda: [link.text for link in b.all("table.sources tbody a.name")]
    b.open("#/library")
    b.until("the rows", lambda: len(names()) == 8)
    newest = names()
    b.click(".sort", "Source")
    b.until("by name", lambda: names() == sorted(newest))
    b.open(b.driver.current_url.split("/", 3)[3])
    b.until("by name after a reload too", lambda: names() == sorted(newest))
    assert b.one("th[aria-sort]").get_attribute("aria-sort") == "ascending"
    b.click(".sort", "Source")
    b.until("by name, reversed", lambda: names() == sorted(newest, reverse=True))
    b.click(".sort", "Source")
    b.until("newest first again", lambda: names() == newest)
    b.click("button.tag", "kitchen")
    b.until("the kitchen", lambda: 0 < len(names()) < 8 and all("kitchen" in row.text for row in b.all("table.sources tbody tr")))
    assert "tag=kitchen" in b.driver.current_url, b.driver.current_url
    b.click("button", "Clear filters")
    b.until("all", lambda: len(names()) == 8)
    part = newest[0].split(".")[0].upper()
    b.write("input[aria-label^='Only sources whose name']", part)
    b.until("those with the name", lambda: newest[0] in names() and all(part.lower() in name.lower() for name in names()))
    b.write("input[aria-label^='Only sources whose name']", "no such name")
    b.sees("No source matches the filters")
    b.click("button", "Clear filters")
    b.until("all again", lambda: len(names()) == 8)


def pasted_text_is_kept_word_for_word():
    b.open("#/library")
    b.click("button", "Paste text")
    b.click("dialog button.primary", "Ingest")
    b.until("the error of the field", lambda: "empty" in b.one("dialog .field-error").text)
    b.write("dialog textarea", f"# Marmalade\n\nCut the oranges thinly. {HOSTILE} Boil them for two hours.\n")
    b.write("dialog input[name='path']", "/notes/marmalade.md")
    b.write("dialog input[name='tags']", "kitchen, winter")
    b.picture("paste")
    sound()
    b.click("dialog button.primary", "Ingest")
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
        data.items.add(new File([], 'nothing.txt', {type: 'text/plain'}));
        const zone = document.querySelector('.drop');
        for (const kind of ['dragenter', 'dragover', 'drop'])
            zone.dispatchEvent(new DragEvent(kind, {dataTransfer: data, bubbles: true, cancelable: true}));""")
    b.one("table.sources a", "cellar.txt")
    b.until("the problem of the other file", lambda: any("picture.png" in one.text for one in b.all(".refused")))
    b.sees("Convert the file to text")
    b.sees("The file is empty.")
    b.picture("dropped")
    sound()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "attic.md")
        path.write_text("# Attic\n\nThe old radio stands in the attic.\n")
        b.all("input[type='file']")[0].send_keys(str(path))
        b.one("table.sources a", "attic.md")
    drop = """const data = new DataTransfer();
        data.items.add(new File(['The ladder stands in the shed.'], 'shed.txt', {type: 'text/plain'}));
        for (const kind of ['dragover', 'drop'])
            document.querySelector(arguments[0]).dispatchEvent(new DragEvent(kind, {dataTransfer: data, bubbles: true, cancelable: true}));"""
    b.js(drop, ".library-main")
    b.one("table.sources a", "shed.txt")
    b.js(drop, ".foot")
    b.sees("Drop text files on the Library")
    return [415]


def a_text_with_a_known_name_is_a_version_or_a_source_of_its_own():
    named = lambda: [(item["path"], item["latest_version"]) for item in api(URL, "GET", "/v1/sources?filename=roof.md&sort=created_at")["items"]]
    drop = lambda: b.js("""const data = new DataTransfer();
        data.items.add(new File(['# Roof\\n\\nThe third tile is loose. ' + Math.random()], 'roof.md', {type: 'text/plain'}));
        document.querySelector('.drop').dispatchEvent(new DragEvent('drop', {dataTransfer: data, bubbles: true, cancelable: true}));""")
    api(URL, "POST", "/v1/ingestions", {"path": "/house/roof.md", "text": "# Roof\n\nA tile is loose."})
    b.until("the first text", lambda: named() == [("/house/roof.md", 1)])
    b.open("#/library")
    b.one(".drop")
    drop()
    b.sees("Is it the same document?")
    b.picture("same-name")
    sound()
    b.click("dialog button", "Cancel")
    drop()
    assert b.one("dialog select").get_attribute("value") == "", "nothing is merged by default"
    Select(b.one("dialog select")).select_by_visible_text("New version of /house/roof.md")
    b.click("dialog button.primary", "Ingest")
    b.until("a new version", lambda: named() == [("/house/roof.md", 2)])
    drop()
    b.click("dialog button.primary", "Ingest")
    b.until("another source", lambda: named() == [("/house/roof.md", 2), ("/roof.md", 1)])
    drop()
    b.until("a version without a question", lambda: named() == [("/house/roof.md", 2), ("/roof.md", 2)])
    for item in api(URL, "GET", "/v1/sources?filename=roof.md")["items"]:
        api(URL, "DELETE", f"/v1/sources/{item['id']}")


def the_helper_dialogue_leads_from_errors_to_a_confirmation():
    b.open("#/library")
    b.click("button", "Paste text")
    b.write("dialog textarea", "Dear Emil, the roof is mended. Yours, Ada.")
    b.write("dialog input[name='path']", "/letters/roof.txt")
    b.click("dialog .check")
    b.click("dialog button.primary", "Ingest")
    b.click(".job-card button", "Write helper")
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
    b.click("dialog button", "Confirm and continue")
    b.click("table.sources a", "roof.txt")
    b.click(".tabs a", "Helper")
    b.sees("A letter to Emil.")
    b.sees("written by you")
    b.click("button", "Let a model rewrite it")
    b.sees("written by a model")
    b.picture("helper")
    sound()
    return [422]


def a_waiting_job_can_be_cancelled():
    b.open("#/library")
    b.click("button", "Paste text")
    b.write("dialog textarea", "Never mind.")
    b.click("dialog .check")
    b.click("dialog button.primary", "Ingest")
    b.click(".job-card button", "Write helper")
    b.click("dialog button", "Cancel the job")
    b.sees("no version was added")


def a_source_can_be_excluded_from_queries():
    b.open("#/library")
    row = f"tr[data-source='{source_named('coffee.md')['id']}'] "
    b.click(row + ".switch")
    b.sees("Queries no longer use coffee.md")
    assert source_named("coffee.md")["eligible"] is False
    b.open("#/library")
    b.until("the switch is off", lambda: b.one(row + ".switch").get_attribute("aria-checked") == "false")
    b.one(row + ".switch").send_keys(Keys.SPACE)
    b.sees("Queries use coffee.md again")
    assert source_named("coffee.md")["eligible"] is True


def a_change_that_somebody_else_made_is_not_overwritten():
    b.open("#/library")
    source = source_named("sleep.md")
    switch = f"tr[data-source='{source['id']}'] .switch"
    b.one(switch)
    api(URL, "PATCH", f"/v1/sources/{source['id']}", {"tags": source["tags"] + ["night"]})
    b.click(switch)
    b.sees("has changed in the meantime")
    assert source_named("sleep.md")["eligible"] is True


def the_keyboard_keeps_its_place_when_a_part_is_drawn_again():
    b.open(f"#/library/{source_named('sleep.md')['id']}")
    for name in ["Text", "Chunks"]:
        b.one("nav[aria-label='Parts of the source'] a", name).send_keys(Keys.ENTER)
        b.until(f"the focus on {name}", lambda: b.focused().text == name)


def two_versions_are_compared():
    b.open(f"#/library/{source_named('marmalade.md')['id']}/versions")
    b.click("button", "New version")
    text = b.one("dialog textarea")
    b.until("the current text", lambda: "oranges" in text.get_attribute("value"))
    text.clear()
    text.send_keys("# Marmalade\n\nCut the oranges thickly.\nBoil them for three hours.\n")
    b.click("dialog button.primary", "Ingest the new version")
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


def a_source_is_deleted_after_a_confirmation():
    b.open(f"#/library/{source_named('cellar.txt')['id']}")
    b.click("button.danger", "Delete")
    b.click("dialog button", "Cancel")
    b.click("button.danger", "Delete")
    b.click("dialog button.danger", "Delete permanently")
    b.until("the library", lambda: b.all("table.sources tbody tr"))
    assert "cellar.txt" not in b.one("table.sources").text


def a_search_finds_a_chunk_and_opens_it_in_its_text():
    b.open("#/library")
    b.write("form.search input", "how long to boil the oranges")
    b.one("form.search input").send_keys(Keys.ENTER)
    b.until("what was found", lambda: b.all(".results .chunk"))
    assert "marmalade.md" in b.all(".results .chunk")[0].text, b.one(".results").text
    assert "oranges" in [hit.text.lower() for hit in b.all(".results .chunk")[0].find_elements("css selector", "mark.hit")]
    assert "best first" in b.focused().text, "reading goes on at the results"
    b.picture("search")
    sound()
    b.click(".results a", "marmalade.md")
    b.until("the marked chunk", lambda: "Boil them for two hours" in b.one("pre mark").text)
    b.picture("search-in-text")
    sound()
    b.open("#/library?search=zeppelin%20price%20in%20Perth")
    b.sees("No chunk matches")
    assert not b.all(".results .chunk"), "weak matches are not shown"
    b.click(".results button", "weak match")
    b.one(".results .chunk")
    b.open("#/library?search=oranges&type=keyword")
    b.sees("keywords")
    b.one("form.search input").clear()
    b.open("#/library")
    b.until("the list again", lambda: b.all("table.sources tbody tr"))


def many_sources_are_counted_and_sorted():
    for n in range(120):
        api(URL, "POST", "/v1/sources", {"filename": f"note-{n:03}.md", "path": f"/many/note-{n:03}.md"}, space="many")
    b.open("#/library")
    b.js("localStorage.setItem('memoir.space', 'many')")
    try:
        look_at_many()
    finally:
        b.js("localStorage.clear()")


def ten_thousand_sources_are_sorted_without_a_pause():
    with other_service() as (_, settings):
        fill(settings["MEMOIR__DATABASE__URL"].removeprefix("sqlite://"), 10_000)
        b.open("#/library")
        b.sees("The newest 50 of 10,000 sources")
        b.js("""window.long = 0; new PerformanceObserver((list) => {
            for (const entry of list.getEntries()) window.long = Math.max(window.long, entry.duration);
        }).observe({type: 'longtask', buffered: true})""")
        names = lambda: [link.text for link in b.all("table.sources tbody a.name")]
        for column, first in [("Source", "note-00000.md"), ("Size", "note-09995.md"), ("Versions", "note-09999.md"), ("Updated", "note-00000.md")]:
            b.click(".sort", column)
            b.until(f"by {column}", lambda: names()[0] == first)
            b.sees("50 of 10,000 sources shown")
        b.click("button", "Show more")
        b.until("the next page", lambda: len(names()) == 100)
        b.write("input[aria-label='Only sources with this tag']", "even")
        b.sees("50 of 5,000 sources shown")
        print(f"   longest task {b.js('return window.long'):.0f} ms")


def fill(file, count):
    """Registers sources directly, because ingesting so many takes minutes."""
    database = sqlite3.connect(file)
    rows = [(f"0199a7e0-0000-7000-8000-{n:012x}", f"note-{n:05}.md", n) for n in range(count)]
    database.executemany(
        "INSERT INTO sources (space, id, user_id, filename, filename_key, path, path_key, type, kind, eligible, latest_version, "
        "latest_size, created_at, updated_at) VALUES ('default', ?1, 'default', ?2, ?2, '/many/' || ?2, ?2, 'md', 'file_ingest', 1, "
        "?3 % 4, 1000 + ?3 % 7, 1767225600000000 + ?3, 1767225700000000 - ?3)", rows)
    database.executemany("INSERT INTO source_tags (space, source_id, tag, position) VALUES ('default', ?1, ?2, 0)", [
        (id, "even" if n % 2 == 0 else "odd") for id, _, n in rows])
    database.commit()
    database.close()


def look_at_many():
    names = lambda: [link.text for link in b.all("table.sources tbody a.name")]
    b.open("#/library")
    b.until("the newest", lambda: len(names()) == 50 and names()[0] == "note-119.md")
    b.sees("The newest 50 of 120 sources")
    b.click(".sort", "Source")
    b.until("by name", lambda: names()[0] == "note-000.md")
    b.sees("50 of 120 sources shown")
    assert not b.all("[aria-busy]")
    asked = b.js("return performance.getEntriesByType('resource').filter((entry) => entry.name.includes('v1/sources?')).map((entry) => new URL(entry.name).searchParams.get('limit'))")
    # The one with limit 1 asks whether the sample is there.
    assert [limit for limit in asked if limit != "1"] == ["50", "50"], f"a page for each order, not all sources: {asked}"
    b.one("button", "Show more").send_keys(Keys.ENTER)
    b.until("the next page", lambda: len(names()) == 100)
    assert b.focused().text == "note-050.md", b.focused().text
    b.open("#/workbench")
    files = lambda: [item.text for item in b.all(".file-list li") if item.is_displayed()]
    b.until("fifty files", lambda: len(files()) == 50)
    b.click("fieldset button", "Show more")
    b.until("more files", lambda: len(files()) == 100)
    b.write("input[aria-label='Find a file']", "note-007")
    b.until("one file", lambda: len(files()) == 1 and "note-007.md" in files()[0])
    sound()
