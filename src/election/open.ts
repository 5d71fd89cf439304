/** Elections over a tenure: what `tenure/election` offers. */
export { Election, election } from "./election.js";
export type { LeaderWork } from "./election.js";
export type { Leader } from "./observation.js";
export type { CampaignOptions, ElectionOptions, LeadOptions } from "./options.js";
export type { Leadership } from "./term.js";
