import { useDebouncedValue } from '@mantine/hooks';
import {
  createSpotlight,
  Spotlight,
  type SpotlightActionData,
  type SpotlightActionGroupData,
  useSpotlight,
} from '@mantine/spotlight';
import {
  IconArrowsMove,
  IconArchive,
  IconBell,
  IconBolt,
  IconBuilding,
  IconDeviceDesktop,
  IconEye,
  IconFilter,
  IconFolders,
  IconHistory,
  IconMapPin,
  IconPencil,
  IconPlayerPlay,
  IconPower,
  IconScript,
  IconSearch,
  IconSettings,
  IconTags,
  IconTool,
  IconUser,
  type Icon,
} from '@tabler/icons-react';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useNavigate, type NavigateOptions } from '@tanstack/react-router';
import { useEffect, useRef, useState } from 'react';
import { apiQuery, call, type SearchResult } from '../api/index.ts';
import { useRecentDevices } from '../features/devices/index.ts';
import { refusalOf, useMe, type Me } from '../session.ts';
import { useEscape } from '../ui/index.ts';
import { NAVIGATION, paletteOpensWith } from './navigation.ts';
import {
  byKind,
  DEVICE_ACTIONS,
  DEVICE_VIEWS,
  type DeviceView,
  isFoundBy,
  LIST_SEARCHES,
  PAGE_ACTIONS,
  readTyped,
  RUN,
  stillMatching,
  type Typed,
} from './palette-actions.ts';

const [store, spotlight] = createSpotlight();
paletteOpensWith(spotlight.open);

const icon = (Shown: Icon) => <Shown size={18} aria-hidden />;

/** Everything that can be opened or done, found by what a person types. */
export function Palette() {
  const [query, setQuery] = useState('');
  const isOpen = useSpotlight(store).opened;
  useEscape(isOpen, spotlight.close);
  const { groups, isSearching } = useEntries(query, setQuery);
  useSelectionOfFirst(groups.flatMap(({ actions }) => actions.map(({ id }) => id)).join(' '), query);
  return (
    <Spotlight
      store={store}
      actions={groups}
      // The server and the groups have searched already.
      filter={(_query, actions) => actions}
      query={query}
      onQueryChange={setQuery}
      nothingFound={isSearching ? 'Searching …' : 'Nothing was found.'}
      scrollable
      maxHeight={420}
      shortcut={null}
      closeOnEscape={false}
      transitionProps={{ duration: 0 }}
      attributes={{ content: { 'aria-label': 'Search' } }}
      // Half transparent, it is too pale on the entry that is selected.
      styles={{ actionDescription: { opacity: 1 } }}
      searchProps={{
        leftSection: icon(IconSearch),
        placeholder: 'Search, or type what to do: restart, run, invite …',
        'aria-label': 'Search',
      }}
    />
  );
}

/**
 * Results come later than what is found here. The first entry is selected again when they do, unless the person has
 * chosen another one meanwhile.
 */
function useSelectionOfFirst(ids: string, query: string): void {
  const shown = useRef(query);
  useEffect(() => {
    const isTyped = shown.current !== query;
    shown.current = query;
    const list = ids === '' ? null : document.getElementById(store.getState().listId);
    const actions = [...(list?.querySelectorAll('[data-action]') ?? [])];
    const selected = actions.findIndex((action) => action.hasAttribute('data-selected'));
    if (selected > 0 && !isTyped && store.getState().selected > 0) {
      store.updateState((state) => ({ ...state, selected }));
      return;
    }
    for (const action of actions) action.removeAttribute('data-selected');
    actions[0]?.setAttribute('data-selected', 'true');
    store.updateState((state) => ({ ...state, selected: actions.length === 0 ? -1 : 0 }));
  }, [ids, query]);
}

/** From this length on the server is asked. */
const ASKED_FROM = 2;
const RESULTS_MAX = 20;

function useResults(text: string) {
  const [q] = useDebouncedValue(text, 120);
  const isAsked = text.length >= ASKED_FROM && q.length >= ASKED_FROM;
  const found = useQuery({
    ...apiQuery('GET /search', { query: { q: q.slice(0, 100), limit: String(RESULTS_MAX) } }),
    enabled: isAsked,
    // What was found for fewer letters stays until the rest is known, so that entries do not flicker.
    placeholderData: keepPreviousData,
  });
  const known = found.data?.results ?? [];
  const isCurrent = q === text && !found.isPlaceholderData;
  return {
    results: !isAsked ? [] : isCurrent ? known : stillMatching(known, text),
    isSearching: text.length >= ASKED_FROM && (found.isFetching || q !== text),
  };
}

function useEntries(query: string, setQuery: (query: string) => void) {
  const me = useMe();
  const navigate = useNavigate();
  const open = (page: NavigateOptions) => void navigate(page);
  const wanted = query.trim().normalize('NFC');
  const typed = readTyped(query.normalize('NFC'));
  const found = useResults(typed?.script === undefined ? wanted : '');
  const about = useResults(typed?.device ?? typed?.about ?? '');
  const scripts = useResults(typed?.script ?? '');
  const waiting = useWaitingDevices(typed?.verb);
  const recentDevices = useRecentDevices(me.user.id);
  const recent: Named[] = recentDevices.map(({ id, name }) => ({ id, title: name }));

  const actions =
    typed === undefined
      ? [...verbs(me, wanted, setQuery), ...pageActions(me, wanted, open)]
      : typedActions(me, typed, {
          open,
          recent,
          waiting: waiting.devices,
          about: about.results,
          scripts: scripts.results,
        });
  const pages = NAVIGATION.filter(
    ({ requires, label }) => refusalOf(me, requires) === undefined && isFoundBy(wanted, [label]),
  ).map(
    ({ label, to, icon: shown }): SpotlightActionData => ({
      id: `page:${label}`,
      label,
      leftSection: icon(shown),
      onClick: () => open({ to }),
    }),
  );
  const kinds = [...byKind(found.results)].map(([kind, results]) => ({
    group: KINDS[kind].label,
    actions: results.map((result) => resultEntry(result, open)),
  }));
  const opened = recentDevices
    .filter(({ name }) => name.toLowerCase().includes(wanted.toLowerCase()))
    .filter(({ id }) => !found.results.some((result) => result.id === id))
    .map(
      ({ id, name }): SpotlightActionData => ({
        id: `recent:${id}`,
        label: name,
        leftSection: icon(IconHistory),
        onClick: () => open(devicePage(id)),
      }),
    );
  const groups: SpotlightActionGroupData[] = (
    typed === undefined
      ? [
          { group: 'Recent devices', actions: opened },
          ...(wanted === '' ? [] : kinds),
          { group: 'Actions', actions },
          { group: 'Pages', actions: pages },
        ]
      : [{ group: 'Actions', actions }, ...kinds]
  ).filter((group) => group.actions.length > 0);
  return { groups, isSearching: [found, about, scripts, waiting].some((each) => each.isSearching) };
}

const WAITING_MAX = '10';
const APPROVE = DEVICE_VIEWS.find((view) => 'of' in view);

/** The devices that wait for approval. They are read only when the verb is typed, which needs no name. */
function useWaitingDevices(verb: string | undefined) {
  const isAsked = APPROVE?.words.some((word) => word === verb) === true;
  const found = useQuery({
    ...apiQuery('GET /devices', { query: { status: 'pending', limit: WAITING_MAX } }),
    enabled: isAsked,
  });
  const devices: Named[] = (found.data?.data ?? []).map(({ id, displayName, hostname }) => ({
    id,
    title: displayName ?? hostname,
  }));
  return { devices, isSearching: isAsked && found.isFetching };
}

interface Named {
  id: string;
  title: string;
  description?: string | undefined;
}

type Open = (page: NavigateOptions) => void;

const devicePage = (deviceId: string): NavigateOptions => ({
  to: '/devices/$deviceId',
  params: { deviceId },
});

/** The verbs themselves. Choosing one writes it into the field, and what it is about comes next. */
function verbs(me: Me, wanted: string, setQuery: (query: string) => void): SpotlightActionData[] {
  const choices = [
    ...DEVICE_ACTIONS.map(({ dialog, words, requires, say }) => ({
      words,
      requires,
      label: `${say('a device')} …`,
      shown: ICONS[dialog],
    })),
    { ...RUN, label: 'Run a script …', shown: IconPlayerPlay },
    ...DEVICE_VIEWS.map(({ words, requires, say }) => ({
      words,
      requires,
      label: `${say('a device')} …`,
      shown: IconEye,
    })),
    ...LIST_SEARCHES.map(({ words, requires, say }) => ({
      words,
      requires,
      label: say('…'),
      shown: IconSearch,
    })),
  ];
  return choices
    .filter(
      ({ requires, label, words }) =>
        refusalOf(me, requires) === undefined && isFoundBy(wanted, [label, ...words]),
    )
    .map(({ words: [verb], label, shown }) => ({
      id: `verb:${verb}`,
      label,
      leftSection: icon(shown),
      closeSpotlightOnTrigger: false,
      onClick: () => setQuery(`${verb} `),
    }));
}

const pageActions = (me: Me, wanted: string, open: Open): SpotlightActionData[] =>
  PAGE_ACTIONS.filter(
    ({ requires, label, words }) =>
      refusalOf(me, requires) === undefined && isFoundBy(wanted, [label, ...words]),
  ).map(({ label, page }) => ({
    id: `action:${label}`,
    label,
    leftSection: icon(IconBolt),
    onClick: () => open(page),
  }));

/** The verb that was typed, on each device that was found; on the devices opened last until something is typed. */
function typedActions(
  me: Me,
  typed: Typed,
  {
    open,
    recent,
    waiting,
    about,
    scripts,
  }: {
    open: Open;
    recent: Named[];
    waiting: Named[];
    about: SearchResult[];
    scripts: SearchResult[];
  },
): SpotlightActionData[] {
  const isTyped = ({ words }: { words: readonly string[] }) => words.includes(typed.verb);
  const list = LIST_SEARCHES.find(isTyped);
  if (list !== undefined) {
    if (typed.about === '' || refusalOf(me, list.requires) !== undefined) return [];
    const label = list.say(`“${typed.about}”`);
    return [
      {
        id: `list:${typed.verb}`,
        label,
        leftSection: icon(IconSearch),
        onClick: () => open(list.page(typed.about)),
      },
    ];
  }
  const isNamed = (typed.device ?? typed.about) !== '';
  const devices: Named[] = isNamed ? about.filter(({ type }) => type === 'devices') : recent;
  const action = DEVICE_ACTIONS.find(isTyped);
  if (action !== undefined) {
    if (refusalOf(me, action.requires) !== undefined) return [];
    return devices.map((device) => ({
      ...entryOf(device, `${action.dialog}:${device.id}`, action.say(device.title), ICONS[action.dialog]),
      onClick: () => open({ ...devicePage(device.id), search: { dialog: action.dialog } }),
    }));
  }
  const view = DEVICE_VIEWS.find(isTyped);
  if (view !== undefined) {
    if (refusalOf(me, view.requires) !== undefined) return [];
    const wanted = typed.about.toLowerCase();
    const offered =
      'of' in view ? waiting.filter(({ title }) => title.toLowerCase().includes(wanted)) : devices;
    return offered.map((device) => ({
      ...entryOf(device, `${view.words[0]}:${device.id}`, view.say(device.title), IconEye),
      onClick: () => void pageOfView(view, device.id).then(open),
    }));
  }
  if (refusalOf(me, RUN.requires) !== undefined) return [];
  const groups = about.filter(({ type }) => isNamed && type === 'groups');
  const targets = refusalOf(me, RUN.requiresOnDevice) === undefined ? devices : [];
  const chosen = typed.script === undefined ? about : scripts;
  const found = chosen.filter(({ type }) => type === 'scripts');
  const run = (device: Named, script?: Named): SpotlightActionData => ({
    ...entryOf(
      device,
      `run:${script?.id ?? ''}:${device.id}`,
      `Run ${script?.title ?? 'a script'} on ${device.title}`,
      IconPlayerPlay,
    ),
    onClick: () =>
      open({
        ...devicePage(device.id),
        search: { tab: 'commands', show: 'run', ...(script === undefined ? {} : { script: script.id }) },
      }),
  });
  if (typed.script !== undefined && typed.script !== '') {
    return found.slice(0, 3).flatMap((script) => [
      ...targets.slice(0, 5).map((device) => run(device, script)),
      ...groups.slice(0, 5).map((group) => ({
        ...entryOf(
          group,
          `run:${script.id}:${group.id}`,
          `Run ${script.title} on the group ${group.title} …`,
          IconPlayerPlay,
        ),
        onClick: () =>
          open({
            to: '/scripts/$scriptId',
            params: { scriptId: script.id },
            search: { dialog: 'run', group: group.id },
          }),
      })),
    ]);
  }
  return [
    ...found.map((script) => ({
      ...entryOf(script, `run:${script.id}`, `Run ${script.title} …`, IconPlayerPlay),
      onClick: () =>
        open({ to: '/scripts/$scriptId', params: { scriptId: script.id }, search: { dialog: 'run' } }),
    })),
    ...targets.map((device) => run(device)),
  ];
}

const entryOf = ({ description }: Named, id: string, label: string, shown: Icon): SpotlightActionData => ({
  id,
  label,
  leftSection: icon(shown),
  ...(description === undefined ? {} : { description }),
});

const ICONS: Record<(typeof DEVICE_ACTIONS)[number]['dialog'], Icon> = {
  reboot: IconPower,
  maintenance: IconTool,
  rename: IconPencil,
  tags: IconTags,
  move: IconArrowsMove,
  decommission: IconArchive,
};

const KINDS: Record<SearchResult['type'], { label: string; shown: Icon }> = {
  devices: { label: 'Devices', shown: IconDeviceDesktop },
  users: { label: 'People', shown: IconUser },
  sites: { label: 'Sites', shown: IconMapPin },
  organizations: { label: 'Organizations', shown: IconBuilding },
  groups: { label: 'Groups', shown: IconFolders },
  filters: { label: 'Filters', shown: IconFilter },
  scripts: { label: 'Scripts', shown: IconScript },
  alerts: { label: 'Alerts', shown: IconBell },
  settings: { label: 'Settings', shown: IconSettings },
};

const resultEntry = (result: SearchResult, open: Open): SpotlightActionData => ({
  ...entryOf(result, `${result.type}:${result.id}`, result.title, KINDS[result.type].shown),
  onClick: () => void pageOf(result).then(open),
});

/** The page that shows a result of the search. */
async function pageOf({ type, id, title, description, href }: SearchResult): Promise<NavigateOptions> {
  switch (type) {
    case 'devices':
      return devicePage(id);
    case 'users':
      // The address, which only one person has.
      return { to: '/people', search: { q: description ?? title } };
    case 'sites':
      return { to: '/devices', search: { org: await organizationOf(id), site: id } };
    case 'organizations':
      return { to: '/organizations/$organizationId', params: { organizationId: id } };
    case 'groups':
      return { to: '/groups/$groupId', params: { groupId: id } };
    case 'filters':
      return { to: '/filters/$filterId', params: { filterId: id } };
    case 'settings':
      return { href: href ?? '/settings' };
    case 'scripts':
      return { to: '/scripts/$scriptId', params: { scriptId: id } };
    case 'alerts':
      return { to: '/alerts', search: { q: title, status: ['active', 'acknowledged', 'resolved'] } };
    default:
      return type satisfies never;
  }
}

/** A device that has no snapshot yet has its own page about backups, which says why. */
async function pageOfView(view: DeviceView, deviceId: string): Promise<NavigateOptions> {
  const { to, search } = view.page;
  const page: NavigateOptions = { to, params: { deviceId }, search };
  if (!('opens' in view)) return page;
  return call('GET /backup/snapshots', { query: { deviceId, limit: '1' } }).then(
    ({ data: [newest] }) =>
      newest === undefined
        ? page
        : { to: '/backup/snapshots/$snapshotId', params: { snapshotId: newest.id }, search: {} },
    () => page,
  );
}

/** Of a site that was removed since it was found, the devices of all organizations are shown. */
async function organizationOf(siteId: string): Promise<string | undefined> {
  return call('GET /orgs/sites/{id}', { params: { id: siteId } }).then(
    ({ orgId }) => orgId,
    () => undefined,
  );
}
