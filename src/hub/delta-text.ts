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

/** `JSON.stringify(delta)`, for a fraction of the time where many are sent the same changes. */
export function deltaText({ subscriptionId, seq, changed, entered, left, counts }: DevicesDelta): string {
  let entries = '';
  for (const entry of changed) entries += entries === '' ? entryText(entry) : `,${entryText(entry)}`;
  return (
    `{"subscriptionId":${JSON.stringify(subscriptionId)},"seq":${seq},"changed":[${entries}],` +
    `"entered":${JSON.stringify(entered)},"left":${JSON.stringify(left)},"counts":${JSON.stringify(counts)}}`
  );
}
