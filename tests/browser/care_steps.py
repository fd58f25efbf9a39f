"""Care of the hierarchy: merging, moving, splitting and removing, each with a preview, and undoing it."""

import functools

from selenium.webdriver.common.keys import Keys

from browser import api
from setting import URL, b, sound

SPACE = "care"
SUBJECTS = [
    ["The plumber repaired the boiler in room", "The boiler lost pressure and the radiators stayed cold in room",
     "A new pump was fitted to the boiler of room"],
    ["We booked a flight to the island and a hotel for night", "The hotel by the beach has a pool, we stayed for night",
     "Our flight was late and the hotel kept our room for night"],
]
COUNT = 12


def ask(method, path, body=None):
    return api(URL, method, path, body, space=SPACE)


def tree():
    return ask("GET", "/v1/categories/tree?limit=500")["items"]


@functools.cache
def prepared():
    """A leaf with chunks about two subjects, and some empty ones. Returns the ids by name."""
    items = [{"path": f"/notes/{subject}-{n}.txt", "text": f"{forms[n % 3]} {n}."}
             for subject, forms in enumerate(SUBJECTS) for n in range(COUNT // 2)]
    ask("POST", "/v1/ingestions/batch", {"items": items})
    filed = lambda: [leaf for leaf in tree() if leaf["level"] == 3 and leaf["chunk_count"]]
    b.until("the notes are filed", lambda: sum(leaf["chunk_count"] for leaf in filed()) == COUNT)
    ids = {}
    for name, above in [("Ours", None), ("Cottage", "Ours"), ("Yard", "Ours"), ("Boiler", "Cottage"), ("Roof", "Cottage"),
                        ("Roofs", "Cottage"), ("Lawn", "Yard")]:
        ids[name] = ask("POST", "/v1/categories", {"name": name, "parent_id": ids.get(above)})["id"]
    ids["Roof of the shed"] = ask("POST", "/v1/categories", {"name": "Roof", "parent_id": ids["Yard"]})["id"]
    for leaf in filed():
        ask("POST", f"/v1/categories/{leaf['id']}/merge", {"into": ids["Boiler"]})
    return ids


def count_of(name):
    return next((item["chunk_count"] for item in tree() if item["id"] == prepared()[name]), None)


def open_at(name):
    b.open("")
    b.js("localStorage.setItem('memoir.space', arguments[0])", SPACE)
    b.open(f"#/hierarchy/{prepared()[name]}")
    b.one(".category-actions button", "Merge…")


def pick(words):
    """Types words that only one path has, and picks it with the keyboard alone."""
    b.write("dialog input[type='search']", words)
    b.until("one category", lambda: "1 category" == b.one("dialog .found-count").text)
    b.press(Keys.ENTER)


def preview(*sentences):
    for words in sentences:
        b.until(f"“{words}”", lambda: words in b.one("dialog .care-preview").text)


def done(words):
    b.until(f"“{words}”", lambda: words in b.one(".care-done").text)


def undo():
    b.click(".care-done button", "Undo")
    done("The change is undone.")


def in_own_space(step):
    @functools.wraps(step)
    def run():
        try:
            return step()
        finally:
            b.js("localStorage.clear()")
    return run


@in_own_space
def a_merge_is_previewed_applied_and_undone():
    open_at("Boiler")
    b.click(".category-actions button", "Merge…")
    assert b.focused().get_attribute("type") == "search", "typing begins at once"
    options = [label.text for label in b.all("dialog .pick-list label")]
    assert "Ours › Cottage › Roof" == options[0], f"siblings come first: {options}"
    assert "Ours › Cottage" not in options and "Ours › Cottage › Boiler" not in options, options
    assert not b.one("dialog button.primary").is_enabled()
    b.picture("merge-targets")
    b.press(Keys.ESCAPE)
    b.until("the focus comes back", lambda: b.focused().text == "Merge…")

    b.press(Keys.ENTER)
    pick("yard lawn")
    preview(f"{COUNT} chunks move to Lawn.", "The category Boiler is closed; Lawn takes its place.")
    assert count_of("Lawn") == 0, "a preview changes nothing"
    b.picture("merge-preview")
    sound()
    b.scheme("dark")
    b.size(390, 844)
    sound()
    b.picture("merge-preview-narrow-dark")
    b.scheme("light")
    b.size(1280, 900)
    b.click("dialog button.primary", "Merge")
    done("Merged Boiler into Lawn.")
    assert "Merged Boiler" in b.focused().text, "reading goes on at what was done"
    assert b.one(".crumbs [aria-current]").text == "Lawn" and count_of("Lawn") == COUNT
    b.picture("merged")
    sound()
    undo()
    assert count_of("Boiler") == COUNT and count_of("Lawn") == 0


@in_own_space
def a_chunk_is_moved_to_another_leaf_and_back():
    open_at("Boiler")
    number = b.one(".category-chunks .chunk").get_attribute("data-chunk")
    b.click(f"[data-chunk='{number}'] button", "Move to another leaf…")
    pick("yard lawn")
    preview(f"Chunk {number} moves to Ours › Yard › Lawn.", "also when its source is ingested again")
    b.click("dialog button.primary", "Move")
    done(f"Moved chunk {number} to Ours › Yard › Lawn.")
    b.until("the other chunks", lambda: b.all(".category-chunks .chunk"))
    assert not b.all(f"[data-chunk='{number}']") and count_of("Lawn") == 1
    undo()
    assert count_of("Lawn") == 0

    source = ask("GET", f"/v1/chunks/{number}")["source_id"]
    b.open(f"#/library/{source}")
    b.click(".chunk button", "Move to another leaf…")
    pick("yard lawn")
    b.click("dialog button.primary:enabled", "Move")
    b.until("the new leaf", lambda: "Lawn" in b.one(".chunk .category-path").text)
    b.picture("chunk-moved")
    sound()
    undo()
    assert "Boiler" in b.one(".chunk .category-path").text and count_of("Boiler") == COUNT


@in_own_space
def a_leaf_is_split_and_the_change_undone_from_the_list():
    open_at("Boiler")
    b.click(".category-actions button", "Split…")
    preview("The new category", "chunks move to")
    b.picture("split-preview")
    b.click("dialog button.primary", "Split")
    done("Split Boiler.")
    assert 0 < count_of("Boiler") < COUNT
    b.click(".earlier-names summary")
    b.click(".earlier-names button", "Undo…")
    preview("chunks move back.", "is closed")
    b.click("dialog button.primary", "Undo")
    done("The change is undone.")
    assert count_of("Boiler") == COUNT
    b.until("no second undo", lambda: "Split by a user" in b.one(".earlier-names").get_attribute("textContent"))


@in_own_space
def a_category_is_moved_and_removed():
    open_at("Roof")
    b.click(".category-actions button", "Move…")
    pick("yard")
    b.until("the problem", lambda: "already exists" in b.one("dialog .problem").text)
    assert not b.one("dialog button.primary").is_enabled()
    sound()
    b.press(Keys.ESCAPE)

    open_at("Boiler")
    b.click(".category-actions button", "Move…")
    pick("yard")
    preview("The category Boiler moves to Yard.")
    b.click("dialog button.primary", "Move")
    done("Moved Boiler to Yard.")
    assert [step.text for step in b.all(".crumbs li")] == ["Everything", "Ours", "Yard", "Boiler"]
    undo()

    b.click(".category-actions button", "Remove…")
    pick("yard lawn")  # asked for, because it is not empty
    preview(f"{COUNT} chunks move to Lawn.", "The category Boiler is closed; Lawn takes its place.")
    b.picture("remove-into")
    b.click("dialog button.primary", "Remove")
    done("Removed Boiler.")
    assert count_of("Boiler") is None and count_of("Lawn") == COUNT
    undo()
    assert count_of("Boiler") == COUNT

    open_at("Roof of the shed")
    b.click(".category-actions button", "Remove…")
    preview("The category Roof is closed.")
    assert not b.one("dialog").find_element("css selector", ".category-pick").is_displayed(), "an empty one needs no target"
    b.click("dialog button.primary", "Remove")
    done("Removed Roof.")
    assert b.one(".crumbs [aria-current]").text == "Yard"
    return [409]


@in_own_space
def a_proposal_is_applied():
    open_at("Ours")
    b.click("a", "Proposals")
    proposal = b.one(".proposal", "Roofs")
    assert "both names have the same words" in proposal.text.lower(), proposal.text
    b.picture("proposals")
    sound()
    b.scheme("dark")
    b.size(390, 844)
    sound()
    b.picture("proposals-narrow-dark")
    b.scheme("light")
    b.size(1280, 900)
    b.click(".proposal button[aria-label*='Roofs']")
    preview("The category Roofs is closed; Roof takes its place.")
    b.click("dialog button.primary", "Apply")
    done("Applied: Roofs.")
    b.until("it is gone", lambda: not any("Roofs" in one.text for one in b.all(".proposal")))
    assert count_of("Roofs") is None
    undo()
    b.one(".proposal", "Roofs")
    assert count_of("Roofs") == 0
