"""Queries and the hierarchy: from a question to its chunk, replays, zooming with mouse and keyboard."""

import time

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from browser import api
from setting import URL, b, sound


def a_question_of_the_sample_leads_to_its_chunk():
    b.click(".try a", "ferry")
    b.one(".strategy :checked[value='auto']")
    assert not b.one(".more-strategies").get_attribute("open"), "the other strategies are folded"
    b.until("the estimate", lambda: "At most" in b.one(".bound").text and "Auto" in b.one(".bound").text)
    # A sample question is asked at once; the embedded model costs nothing.
    b.sees("9:15 and 14:30")
    b.until("reading goes on at the answer", lambda: b.focused().text == "Answer")
    words = b.one("section[aria-label='Chunks'] p.muted").text
    assert "given to the model" in words and "cited" in words, words
    assert "confidence" in b.one(".answer .confidence").text
    quote = b.one(".answer .quotes li")
    assert "harbour-town.md" in quote.text and "9:15" in quote.text, quote.text
    assert b.one(".tier.last h3").text == "Search", "the tiers of auto"
    assert "evidence" in b.one(".tier").text
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
    chunk = b.one(".chunk.found")
    assert chunk.get_attribute("data-chunk") == number
    assert "The ferry to Sør leaves at 9:15" in chunk.text
    assert b.focused() == chunk, "the chunk has the focus"
    b.picture("chunk-found")
    sound()
    b.driver.back()
    b.sees("9:15 and 14:30")


def the_steps_of_a_query_are_shown_as_they_come():
    b.open("#/ask?question=How%20long%20should%20the%20loaf%20wait%3F")
    b.one("button.primary", "Ask")
    b.js("""window.steps = []; new MutationObserver(() => {
        for (const step of document.querySelectorAll('.waiting .tier h3')) window.steps.push(step.textContent);
        if (document.querySelector('.waiting .answer-text')?.textContent) window.steps.push('words');
    }).observe(document.body, {childList: true, subtree: true})""")
    b.click("button.primary", "Ask")
    b.one(".answer .answer-text")
    seen = b.js("return window.steps")
    assert "Search" in seen and "words" in seen, f"seen before the answer: {seen}"


def the_answer_is_never_under_the_header():
    for width, height in [(1280, 900), (1280, 620), (390, 740)]:
        b.size(width, height)
        b.open("#/ask?question=When%20does%20the%20ferry%20leave%3F")
        b.click("button.primary", "Ask")
        b.one(".answer-text")
        time.sleep(0.2)
        top, header = b.js("return [document.querySelector('.answer').getBoundingClientRect().top, document.querySelector('.top').getBoundingClientRect().bottom]")
        assert header <= top < height - 60, f"at {width} × {height} the answer begins at {top}, under a header of {header}"
    b.size(1280, 900)


def another_strategy_walks_and_ranks_the_best_first():
    b.open("#/ask?question=When%20does%20the%20ferry%20leave%3F")
    b.click(".more-strategies summary")
    b.click(".strategy", "Wide branch")
    b.click("button.primary", "Ask")
    b.one("section[aria-label='The walk']")  # the words come first, the walk with the whole result
    b.sees("9:15 and 14:30")
    assert len(b.all(".walk-level")) == 4, "three levels and the chunks read"
    ranks = [rank.text for rank in b.all(".walk-level")[0].find_elements("css selector", ".rank")]
    assert ranks == [str(n + 1) for n in range(len(ranks))] and ranks, ranks
    assert "tokens" in b.one(".walk-level .walk-cost").text
    assert not b.all(".tier"), "only auto has tiers"
    b.picture("walk-light")
    b.one(".asked", "Wide branch")
    sound()


def a_question_is_replayed_and_compared():
    b.click("button", "Replay as recorded")
    b.sees("Identical: the same walk")
    assert not b.all(".replay-out .result-body"), "an identical replay takes one line"
    b.click("button", "Replay live")
    b.sees("Live replay, compared with the original")
    b.sees("Read by both")
    b.open("#/ask")
    b.click(".asked a", "ferry")
    b.sees("Receipts contain the walk but no text")
    b.one("section[aria-label='The walk']")
    b.click("button", "Replay as recorded")
    b.until("the answer again", lambda: "9:15" in b.one(".replay-out .answer-text").text)


def a_question_without_an_answer_says_what_to_do():
    b.open("#/ask")
    b.write("textarea.question", "Is there anything?")
    b.click("summary", "More settings")
    b.write("input[name='tags']", "no-such-tag")
    b.picture("ask-settings")
    sound()
    b.click("button.primary", "Ask")
    b.sees("No chunk answers the question")
    b.sees("use fewer filters")
    b.open("#/ask?question=What%20does%20a%20zeppelin%20cost%20in%20Perth%3F")
    b.click("button.primary", "Ask")
    b.sees("memoir does not know this")
    b.sees("there is no answer")
    assert b.one("p.sr[role='status']").get_attribute("textContent") == "memoir does not know this."
    assert b.focused().text == "memoir does not know this"
    b.picture("nothing-found")
    sound()
    return [404]


def named(cell):
    return cell.find_element("css selector", "title").get_attribute("textContent").split(":")[0]


def the_hierarchy_zooms_by_mouse_and_by_keyboard():
    b.open("#/hierarchy")
    b.one(".icicle .cell")
    b.picture("hierarchy")
    states = b.js("""return [...document.querySelectorAll('.icicle .cell.level-1, .icicle .cell.level-2')].map((cell) => cell.getAttribute('aria-expanded'))""")
    assert states and set(states) == {"true"}, f"categories whose children are drawn: {states}"
    first = b.until("a category", lambda: next(cell for cell in b.all(".icicle .cell.level-1")))
    name = named(first)
    ActionChains(b.driver).move_to_element_with_offset(first.find_element("css selector", "rect"), 0, 0).click().perform()
    b.until("the path", lambda: b.one(".crumbs [aria-current]").text == name)
    assert named(b.focused()) == name
    b.picture("hierarchy-zoomed")
    sound()
    b.press(Keys.ESCAPE)
    b.until("out again", lambda: b.one(".crumbs [aria-current]").text == "Everything")
    b.press(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    leaf = named(b.focused())
    b.press(Keys.ENTER)
    b.until("the leaf", lambda: b.one(".crumbs [aria-current]").text == leaf)
    b.until("its chunks", lambda: b.all(".category-chunks .chunk"))
    assert "Click to zoom in" not in b.one(".keys").text
    outline = b.js("return getComputedStyle(document.activeElement.querySelector('rect')).strokeWidth")
    assert outline == "2.5px", f"the focus is not visible: {outline}"
    assert b.js("return document.querySelector('.icicle').clientHeight") < 80, "the chunks stand where the box was"
    colour = "return getComputedStyle(arguments[0]).getPropertyValue('--hue')"
    listed = b.one(".category-list [aria-current] .swatch")
    drawn = b.one(".icicle .cell:not(.level-0)")
    assert b.js(colour, listed).strip() == b.js(colour, drawn).strip() != "", "the swatch has the hue of its branch"
    for _ in range(3):
        path = [crumb.text for crumb in b.all(".crumbs li")]
        b.driver.back()
        b.until("one level up", lambda: [crumb.text for crumb in b.all(".crumbs li")] == path[:-1])
    assert b.one(".crumbs [aria-current]").text == "Everything"
    hues = {b.js(colour, cell).strip() for cell in b.all(".icicle .cell.level-1")}
    assert len(hues) == len(b.all(".icicle .cell.level-1")), f"branches share a hue: {hues}"
    b.write("input[type='search']", "lighthouse")
    b.click(".category-list button", "The lighthouse")
    b.sees("lighthouse")
    b.click(".category-chunks .chunk-head a", "harbour-town.md")
    b.one(".chunk.found")
    b.sees("Two days in Varnhaven")


def many_small_categories_are_one_box():
    top = api(URL, "POST", "/v1/categories", {"name": "Collections"})
    for n in range(40):
        api(URL, "POST", "/v1/categories", {"name": f"Small thing {n:02}", "parent_id": top["id"]})
    b.open(f"#/hierarchy/{top['id']}")
    b.one(".icicle .cell.group")
    heights = b.js("return [...document.querySelectorAll('.icicle .cell rect')].map((box) => box.getBoundingClientRect().height)")
    assert min(heights) > 10, f"a box is {min(heights)} px high"
    more = next(cell for cell in b.all(".icicle .cell.group"))
    assert "more" in named(more)
    shown = len(b.all(".icicle .cell"))
    b.js("arguments[0].dispatchEvent(new MouseEvent('click', {bubbles: true}))", more)
    b.until("the group", lambda: "more" in b.one(".crumbs [aria-current]").text)
    assert len(b.all(".icicle .cell")) > 3
    b.picture("hierarchy-group")
    sound()
    b.driver.back()
    b.until("up again", lambda: b.one(".crumbs [aria-current]").text == "Collections")
    assert len(b.all(".icicle .cell")) == shown
    b.click(".category-actions button", "New category")
    b.write("dialog input", "Small thing 00")
    b.click("dialog button.primary", "Create")
    b.one("dialog .problem, dialog .field-error")
    b.write("dialog input", "Another thing")
    b.click("dialog button.primary", "Create")
    b.until("the new one", lambda: "Another thing" in b.one(".category-list").text)
    b.click(".category-actions button", "Remove…")
    b.until("what would change", lambda: "The category Collections is closed." in b.one("dialog .care-preview").text)
    b.click("dialog button.primary", "Remove")
    b.until("it is gone", lambda: "Collections" not in b.one(".category-list").text)
    return [409]


def a_category_is_renamed_and_the_change_undone():
    tree = api(URL, "GET", "/v1/categories/tree?limit=500")["items"]
    leaf = next(category for category in tree if category["name"] == "The lighthouse")
    sibling = next(category for category in tree if category["parent_id"] == leaf["parent_id"] and category["id"] != leaf["id"])
    top = next(category for category in tree if category["level"] == 1 and category["chunk_count"])
    name_of = lambda category: api(URL, "GET", f"/v1/categories/{category['id']}")["name"]
    changes = lambda category: api(URL, "GET", f"/v1/categories/changes?category_id={category['id']}")["items"]

    def shows(name):
        """The path and the picture have this name."""
        b.until(f"the path to {name}", lambda: b.one(".crumbs [aria-current]").text == name)
        assert name in [named(cell) for cell in b.all(".icicle .cell")], name

    b.open(f"#/hierarchy/{leaf['id']}")
    b.one(".category-chunks .chunk")
    assert not changes(leaf) and not any(names.is_displayed() for names in b.all(".earlier-names")), "there are no earlier names yet"
    b.click(".category-actions button", "Rename")
    assert b.one("dialog input").get_attribute("value") == leaf["name"]
    b.write("dialog input", "x" * 101)
    b.click("dialog button.primary", "Save")
    b.until("the error of the field", lambda: "at most 100 characters" in b.one("dialog .field-error").text)
    b.write("dialog input", sibling["name"].upper())
    b.click("dialog button.primary", "Save")
    b.until("the problem", lambda: "already exists under the same parent" in b.one("dialog .problem").text)
    b.picture("rename-taken")
    sound()
    b.scheme("dark")
    sound()
    b.picture("rename-taken-dark")
    b.scheme("light")
    b.click("dialog button", "Cancel")
    b.until("the focus comes back", lambda: b.focused().text == "Rename")
    assert name_of(leaf) == leaf["name"] and not changes(leaf)

    b.click(".category-actions button", "Rename")
    b.write("dialog input", "  Light on the cape ")
    b.click("dialog button.primary", "Save")
    b.until("no dialogue", lambda: not b.all("dialog"))
    shows("Light on the cape")
    assert "Light on the cape" in b.one(".category-list [aria-current]").text
    assert b.one(".category-chunks h2").text.startswith("Light on the cape")
    assert all("Light on the cape" in path.text for path in b.all(".category-chunks .category-path"))
    assert "The lighthouse" in b.one(".renamed").text and name_of(leaf) == "Light on the cape"
    b.one(".earlier-names")
    b.picture("renamed")
    sound()
    b.click(".renamed button", "Undo")
    b.until("it is undone", lambda: "Renamed back to The lighthouse" in b.one(".renamed").text)
    shows(leaf["name"])
    assert name_of(leaf) == leaf["name"] and b.focused().text == "Rename"
    assert not b.one(".earlier-names").get_attribute("open"), "the earlier names are folded"
    b.until("both changes", lambda: len(b.all(".earlier-names li")) == 2)
    b.click(".earlier-names summary")
    newest = b.one(".earlier-names li").text
    assert newest.startswith("Light on the cape") and "Renamed to The lighthouse by a user" in newest, newest
    b.picture("earlier-names")
    sound()
    b.scheme("dark")
    b.size(390, 844)
    sound()
    b.picture("earlier-names-narrow-dark")
    b.scheme("light")
    b.size(1280, 900)

    # With the keyboard alone, and on the highest level.
    b.open(f"#/hierarchy/{top['id']}")
    b.one(".icicle .cell")
    for _ in range(60):
        b.press(Keys.TAB)
        if b.focused().text == "Rename":
            break
    b.press(Keys.ENTER)
    b.one("dialog input")
    b.press("Renamed by keyboard", Keys.ENTER)
    shows("Renamed by keyboard")
    assert name_of(top) == "Renamed by keyboard" and "under Renamed by keyboard" in b.one(".found-count").text
    b.until("the focus comes back", lambda: b.focused().text == "Rename")
    b.one(".renamed button")
    for _ in range(8):
        b.press(Keys.TAB)
        if b.focused().text == "Undo":
            break
    assert b.focused().text == "Undo", b.focused().text
    b.press(Keys.ENTER)
    shows(top["name"])
    b.until("it is undone", lambda: name_of(top) == top["name"])

    # A name that somebody else gives meanwhile is not overwritten.
    b.until("the focus comes back", lambda: b.focused().text == "Rename")
    b.press(Keys.ENTER)
    b.one("dialog input")
    api(URL, "PATCH", f"/v1/categories/{top['id']}", {"name": "Named elsewhere"})
    b.press("Mine", Keys.ENTER)
    b.until("the conflict", lambda: "renamed to Named elsewhere in the meantime" in b.one("dialog .problem").text)
    shows("Named elsewhere")
    b.press(Keys.ESCAPE)
    b.until("no dialogue", lambda: not b.all("dialog"))
    assert name_of(top) == "Named elsewhere"
    api(URL, "PATCH", f"/v1/categories/{top['id']}", {"name": top["name"]})
    return [409, 422]
