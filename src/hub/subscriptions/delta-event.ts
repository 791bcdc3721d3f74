import type { DevicesDelta } from '../../protocol/index.ts';
import type { EventJson } from '../sockets/flow-controlled-client.ts';

/**
 * Entries are the same objects for all who watch the same devices, and counts for all frames of a subscription until
 * they change; each is printed once, for as long as it lives.
 */
const printed = new WeakMap<object, string>();

function textOf(part: DevicesDelta['changed'][number] | DevicesDelta['counts']): string {
  let text = printed.get(part);
  if (text === undefined) {
    text = JSON.stringify(part);
    printed.set(part, text);
  }
  return text;
}

/** What was made last: those who watch the same are told one after the other. */
let last: { changed: DevicesDelta['changed']; end: EventJson['end'] } | undefined;

function endOf(changed: DevicesDelta['changed']): EventJson['end'] {
  const isSame =
    changed.length === last?.changed.length && changed.every((entry, at) => entry === last?.changed[at]);
  if (last === undefined || !isSame) {
    const text = `${changed.map(textOf).join(',')}]}]`;
    last = { changed, end: { text, bytes: Buffer.from(text) } };
  }
  return last.end;
}

const listText = (list: readonly unknown[]) => (list.length === 0 ? '[]' : JSON.stringify(list));

/**
 * `JSON.stringify(['devices:delta', delta])`, for a fraction of the time where many are sent the same changes. Those
 * come last, so that they are encoded once for all.
 */
export function deltaEvent(delta: DevicesDelta): EventJson {
  const { subscriptionId, seq, changed, entered, left, counts, complete } = delta;
  return {
    start:
      `["devices:delta",{"subscriptionId":${JSON.stringify(subscriptionId)},"seq":${seq},` +
      `${complete === true ? '"complete":true,' : ''}"counts":${textOf(counts)},"entered":${listText(entered)},"left":${listText(left)},"changed":[`,
    end: endOf(changed),
  };
}
