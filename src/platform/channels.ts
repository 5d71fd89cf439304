import { channel } from "node:diagnostics_channel";
import type { Channel } from "node:diagnostics_channel";
import type { EventSink, EventType } from "../core/events.js";

const channels = new Map<EventType, Channel>();

function channelOf(type: EventType): Channel {
  let found = channels.get(type);
  if (found === undefined) {
    found = channel(`tenure:${type}`);
    channels.set(type, found);
  }
  return found;
}

/** Publishes each event on the diagnostics channel `tenure:<type>`. */
export const diagnosticsChannels: EventSink = {
  wants: (type) => channelOf(type).hasSubscribers,
  publish: (event) => channelOf(event.type).publish(event),
};
