//! Ways in for other programs: adapters over the same operations as the API.

/// Model Context Protocol: tools, resources and prompts for agents.
pub mod mcp;

/// OpenAI's protocol, with memory.
pub mod openai;
