import type { DevicesDelta } from '../protocol/index.ts';

/** Entries are the same objects for all who watch the same devices; each is printed once, for as long as it lives. */
const printed = new WeakMap<object, string>();

function entryText(entry: DevicesDelta['changed'][number]): string {
  let text = printed.get(entry);
  if (text === undefined) {
    text = JSON.stringify(entry);
    printed.set(entry, text);
  }
  return text;
}

/** What was printed last: those who watch the same are told one after the other. */
let last: { changed: DevicesDelta['changed']; text: string } = { changed: [], text: '' };

function entriesText(changed: DevicesDelta['changed']): string {
  const isSame =
    changed.length === last.changed.length && changed.every((entry, at) => entry === last.changed[at]);
  if (!isSame) last = { changed, text: changed.map(entryText).join(',') };
  return last.text;
}

const listText = (list: readonly unknown[]) => (list.length === 0 ? '[]' : JSON.stringify(list));

/** `JSON.stringify(delta)`, for a fraction of the time where many are sent the same changes. */
export function deltaText({ subscriptionId, seq, changed, entered, left, counts }: DevicesDelta): string {
  return (
    `{"subscriptionId":${JSON.stringify(subscriptionId)},"seq":${seq},"changed":[${entriesText(changed)}],` +
    `"entered":${listText(entered)},"left":${listText(left)},"counts":${JSON.stringify(counts)}}`
  );
}
