-- By which tokenizer a version's tokens, and those of its passages, were counted; empty for versions from before.
ALTER TABLE source_versions ADD COLUMN tokenizer VARCHAR(32) NOT NULL DEFAULT '';
