"""Queries and the hierarchy: from a question to its chunk, replays, zooming with mouse and keyboard."""

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from setting import b, sound


def a_question_of_the_sample_leads_to_its_chunk():
    b.click(".try a", "ferry")
    b.one(".strategy :checked[value='wide_branch']")
    b.until("the estimate", lambda: "At most" in b.one(".bound").text)
    b.click("button.primary", "Ask")
    b.sees("9:15 and 14:30")
    assert len(b.all(".walk-level")) == 4, "three levels and the chunks read"
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
    chunk = b.one(".chunk.found")
    assert chunk.get_attribute("data-chunk") == number
    assert "The ferry to Sør leaves at 9:15" in chunk.text
    assert b.focused() == chunk, "the chunk has the focus"
    b.picture("chunk-found")
    sound()
    b.driver.back()
    b.sees("9:15 and 14:30")


def a_question_is_replayed_and_compared():
    b.click("button", "Replay as recorded")
    b.sees("Identical: the same walk")
    b.click("button", "Replay live")
    b.sees("Live replay, compared with the original")
    b.sees("Read by both")
    b.open("#/ask")
    b.click(".asked a", "ferry")
    b.sees("Receipts contain the walk but no text")


def a_question_without_an_answer_says_what_to_do():
    b.open("#/ask")
    b.write("textarea.question", "Is there anything?")
    b.click("summary", "More settings")
    b.write("input[name='tags']", "no-such-tag")
    b.picture("ask-settings")
    sound()
    b.click("button.primary", "Ask")
    b.sees("No chunks were found")
    b.sees("Search more widely")
    return [404]


def named(cell):
    return cell.find_element("css selector", "title").get_attribute("textContent").split(":")[0]


def the_hierarchy_zooms_by_mouse_and_by_keyboard():
    b.open("#/hierarchy")
    b.one(".icicle .cell")
    b.picture("hierarchy")
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
    outline = b.js("return getComputedStyle(document.activeElement.querySelector('rect')).strokeWidth")
    assert outline == "2.5px", f"the focus is not visible: {outline}"
    b.click(".crumbs button", "Everything")
    b.write("input[type='search']", "boats")
    b.click(".category-list button", "Ships and boats")
    b.sees("lighthouse")
    b.click(".category-chunks .chunk-head a", "harbour-town.md")
    b.one(".chunk.found")
    b.sees("Two days in Varnhaven")
