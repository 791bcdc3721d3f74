import { useLocalStorage } from '@mantine/hooks';
import { z } from 'zod';
import { ViewsMenu } from '../../ui/index.ts';
import { useMe } from '../../session.ts';
import { hasConditions, LogSearch, isBare, rememberedPart, viewOf } from './log-search.ts';
import { parseStored } from './viewer-toolbar.tsx';

/** Conditions under a name. */
export function LogViews({
  search,
  memory: { memory, saveView, removeView },
  onApply,
}: {
  search: LogSearch;
  memory: ReturnType<typeof useLogMemory>;
  onApply: (search: LogSearch) => void;
}) {
  return (
    <ViewsMenu
      views={memory.views}
      hint="A view keeps the conditions under a name, in this browser, for this system."
      canSave={hasConditions(search)}
      onOpen={(view) => onApply(view.search)}
      onSave={(name) => saveView(name, search)}
      onRemove={({ name }) => removeView(name)}
    />
  );
}

/** The saved and recent views of this person for one system: the logs of Windows mean nothing on Linux. */
const Memory = z.object({
  last: LogSearch.catch({}),
  views: z.array(z.object({ name: z.string(), search: LogSearch })).catch([]),
  pinned: z.array(z.string()).catch([]),
  recent: z.array(z.string()).catch([]),
});
type LogMemory = z.output<typeof Memory>;

const EMPTY: LogMemory = { last: {}, views: [], pinned: [], recent: [] };
const RECENT = 5;
const VIEWS = 50;

/** Kept in this browser. @param system  the operating system, or another kind of page */
export function useLogMemory(system: string) {
  const { user } = useMe();
  const [memory, set] = useLocalStorage<LogMemory>({
    key: `muster-logs-${user.id}-${system}`,
    defaultValue: EMPTY,
    deserialize: parseStored(Memory, EMPTY),
    getInitialValueInEffect: false,
  });
  return {
    memory,
    /** The next device of this system begins with these conditions. */
    remember: (search: LogSearch) =>
      set((known) => {
        const { log } = search;
        const recent =
          log === undefined
            ? known.recent
            : [log, ...known.recent.filter((name) => name !== log)].slice(0, RECENT);
        const last = rememberedPart(search);
        const isSame = JSON.stringify([last, recent]) === JSON.stringify([known.last, known.recent]);
        return isSame ? known : { ...known, last, recent };
      }),
    togglePin: (log: string) =>
      set((known) => ({
        ...known,
        pinned: known.pinned.includes(log)
          ? known.pinned.filter((name) => name !== log)
          : [...known.pinned, log],
      })),
    saveView: (name: string, search: LogSearch) =>
      set((known) => ({
        ...known,
        views: [...known.views.filter((view) => view.name !== name), { name, search: viewOf(search) }].slice(
          -VIEWS,
        ),
      })),
    removeView: (name: string) =>
      set((known) => ({ ...known, views: known.views.filter((view) => view.name !== name) })),
  };
}

/** The first state of a page: that of its address if it has one, or else the last one used. */
export const beginning = (search: LogSearch, memory: LogMemory): LogSearch =>
  isBare(search) ? memory.last : search;
