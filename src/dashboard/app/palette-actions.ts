/** What the palette offers to do, and how it reads what a person types. Pure. */

/** The actions on a device that open a dialog of its page. */
export const DEVICE_ACTIONS = [
  {
    dialog: 'reboot',
    words: ['restart', 'reboot'],
    requires: 'devices:execute',
    say: (name: string) => `Restart ${name}`,
  },
  {
    dialog: 'maintenance',
    words: ['maintenance', 'maintain'],
    requires: 'devices:write',
    say: (name: string) => `Start maintenance of ${name}`,
  },
  { dialog: 'rename', words: ['rename'], requires: 'devices:write', say: (name: string) => `Rename ${name}` },
  {
    dialog: 'tags',
    words: ['tag', 'tags'],
    requires: 'devices:write',
    say: (name: string) => `Change the tags of ${name}`,
  },
  { dialog: 'move', words: ['move'], requires: 'devices:write', say: (name: string) => `Move ${name}` },
  {
    dialog: 'decommission',
    words: ['decommission', 'remove'],
    requires: 'devices:delete',
    say: (name: string) => `Decommission ${name}`,
  },
] as const satisfies readonly DeviceAction[];

interface DeviceAction {
  dialog: string;
  /** The verbs by which it is typed; the first one is offered. */
  words: readonly [string, ...string[]];
  /** The permission. */
  requires: string;
  say: (name: string) => string;
}

const TROUBLE: ('critical' | 'error' | 'warning')[] = ['critical', 'error', 'warning'];

/** What a person looks at of a device. */
export const DEVICE_VIEWS = [
  {
    words: ['errors', 'warnings'],
    requires: 'devices:read',
    say: (name: string) => `Errors and warnings of ${name}`,
    page: {
      to: '/devices/$deviceId/logs',
      search: { level: TROUBLE },
    },
  },
  {
    words: ['disk', 'metrics'],
    requires: 'devices:read',
    say: (name: string) => `Disk, memory and processor of ${name} over 30 days`,
    page: { to: '/devices/$deviceId', search: { tab: 'metrics', range: 'month' } },
  },
  {
    words: ['history', 'why'],
    requires: 'devices:read',
    say: (name: string) => `What happened to ${name}`,
    page: { to: '/devices/$deviceId', search: { tab: 'history' } },
  },
  {
    words: ['restore'],
    requires: 'backup:read',
    say: (name: string) => `Restore files of ${name}`,
    page: { to: '/devices/$deviceId', search: { tab: 'backup' } },
    opens: 'newest snapshot',
  },
  {
    words: ['approve'],
    requires: 'devices:write',
    say: (name: string) => `Decide on ${name}, which waits for approval`,
    page: { to: '/devices/$deviceId', search: {} },
    of: 'waiting devices',
  },
] as const satisfies readonly {
  /** The verbs by which it is typed; the first one is offered. */
  words: readonly [string, ...string[]];
  /** The permission. */
  requires: string;
  say: (name: string) => string;
  page: { to: string; search: object };
  /** The newest snapshot of the device in place of the page, if it has one. */
  opens?: 'newest snapshot';
  /** The only devices that it is offered for. */
  of?: 'waiting devices';
}[];
export type DeviceView = (typeof DEVICE_VIEWS)[number];

/** Lists that begin with what was typed behind the verb. */
export const LIST_SEARCHES = [
  {
    words: ['software', 'installed'],
    requires: 'devices:read',
    say: (text: string) => `Which devices have ${text}`,
    page: (text: string) => ({ to: '/software', search: { q: text } }) as const,
  },
  {
    words: ['audit', 'did'],
    requires: 'audit:read',
    say: (text: string) => `What ${text} did`,
    page: (text: string) => ({ to: '/audit', search: { user: text } }) as const,
  },
] as const;

/** A script, on devices that are chosen later or typed as well. */
export const RUN = {
  words: ['run'],
  requires: 'scripts:execute',
  requiresOnDevice: 'devices:execute',
} as const;

/** Actions that open a page, or a dialog of it. */
export const PAGE_ACTIONS = [
  {
    label: 'Invite a person',
    words: ['user', 'people', 'new'],
    requires: 'users:invite',
    page: { to: '/people', search: { dialog: 'new' } },
  },
  {
    label: 'Enroll a device',
    words: ['add', 'new', 'install', 'agent', 'key'],
    requires: 'agents:write',
    page: { to: '/enrollment', search: { dialog: 'new' } },
  },
  {
    label: 'New alert rule',
    words: ['add', 'create'],
    requires: 'organizations:write',
    page: { to: '/alerts/rules', search: { dialog: 'new' } },
  },
  {
    label: 'Script runs',
    words: ['show', 'executions', 'history'],
    requires: 'scripts:read',
    page: { to: '/scripts/runs' },
  },
  {
    label: 'Script schedules',
    words: ['show', 'scheduled', 'cron'],
    requires: 'scripts:read',
    page: { to: '/scripts/schedules' },
  },
  {
    label: 'New script schedule',
    words: ['add', 'create', 'cron'],
    requires: 'scripts:execute',
    page: { to: '/scripts/schedules', search: { dialog: 'new' } },
  },
  { label: 'New script', words: ['add', 'create'], requires: 'scripts:write', page: { to: '/scripts/new' } },
  { label: 'New filter', words: ['add', 'create'], requires: 'filters:write', page: { to: '/filters/new' } },
] as const satisfies readonly {
  label: string;
  /** Further words by which it is found. */
  words: readonly string[];
  /** The permission. */
  requires: string;
  page: { to: string; search?: object };
}[];

export interface Typed {
  /** The verb that the text begins with. */
  verb: string;
  /** What it is about, which may not be typed yet. */
  about: string;
  /** Of `run … on …`: what is run, and where. */
  script?: string;
  device?: string;
}

const VERBS: readonly string[] = [...DEVICE_ACTIONS, ...DEVICE_VIEWS, ...LIST_SEARCHES, RUN].flatMap(
  ({ words }) => words,
);

/** Reads `reboot front` and `run cleanup on front`. `undefined` for a text that begins with no verb. */
export function readTyped(text: string): Typed | undefined {
  const [, first = '', rest = ''] = /^(\S+)\s+(.*)$/s.exec(`${text.trimStart()} `) ?? [];
  const verb = first.toLowerCase();
  if (!VERBS.includes(verb) || (text.trimStart().length === first.length && rest === '')) return undefined;
  const about = rest.trim();
  if (verb !== RUN.words[0]) return { verb, about };
  const called = about.replace(/^(?:a\s+)?script(?=\s|$)\s*/i, '');
  const parts = /^(?:(.*?)\s+)?on(?:\s+(.*))?$/is.exec(called);
  if (parts === null) return { verb, about: called };
  return { verb, about: called, script: parts[1]?.trim() ?? '', device: parts[2]?.trim() ?? '' };
}

/** Whether each word that was typed begins one of the words. */
export function isFoundBy(typed: string, texts: readonly string[]): boolean {
  const words = texts
    .join(' ')
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u);
  return typed
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== '')
    .every((word) => words.some((each) => each.startsWith(word)));
}

/**
 * Those of the results of an earlier text that surely match the present one. Others must not be taken by a person who types
 * fast and presses Enter.
 */
export function stillMatching<R extends { title: string; description?: string | undefined }>(
  results: readonly R[],
  text: string,
): R[] {
  const wanted = text.toLowerCase();
  return results.filter(({ title, description = '' }) =>
    [title, description].some((each) => each.toLowerCase().includes(wanted)),
  );
}

/** Results by kind, the kind of the best result first. */
export function byKind<R extends { type: string }>(results: readonly R[]): Map<R['type'], R[]> {
  const kinds = new Map<R['type'], R[]>();
  for (const result of results) {
    const known = kinds.get(result.type);
    if (known === undefined) kinds.set(result.type, [result]);
    else known.push(result);
  }
  return kinds;
}
