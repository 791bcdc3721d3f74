import { Button, Checkbox, Group, Menu, Select, Text, TextInput, Tooltip } from '@mantine/core';
import { useLocalStorage } from '@mantine/hooks';
import {
  IconAdjustmentsHorizontal,
  IconDownload,
  IconKeyboard,
  IconPlayerPause,
  IconPlayerPlay,
  IconPlayerStop,
  IconSearch,
} from '@tabler/icons-react';
import type { Ref } from 'react';
import { z } from 'zod';
import { formatCount } from '../../ui/index.ts';
import type { TailState } from './log-feed.ts';

export interface TailControl {
  state: TailState;
  follow: () => void;
  pause: () => void;
  resume: () => void;
  stop: () => void;
}

interface Props {
  find: string;
  onFind: (find: string) => void;
  onFindNext: () => void;
  findCount: number;
  findField: Ref<HTMLInputElement>;
  tail: TailControl | undefined;
  preferences: Preferences;
  onPreferences: (change: Partial<Preferences>) => void;
  deviceZone: string | undefined;
  exportable: number;
  onExport: (form: 'csv' | 'jsonl' | 'xml') => void;
  isExportOpen: boolean;
  onExportOpen: (isOpen: boolean) => void;
  onHelp: () => void;
}

export function ViewerToolbar(props: Props) {
  const { find, onFind, onFindNext, findCount, findField, tail, preferences, onPreferences } = props;
  const { deviceZone } = props;
  return (
    <Group gap={6} justify="space-between">
      <Group gap={6}>
        <TextInput
          ref={findField}
          w={190}
          placeholder="Find in what is loaded"
          aria-label="Find in the loaded entries"
          leftSection={<IconSearch size={14} aria-hidden />}
          value={find}
          onChange={(event) => onFind(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === 'Enter') onFindNext();
            if (event.key !== 'Escape') return;
            onFind('');
            event.currentTarget.blur();
          }}
        />
        {find !== '' && (
          <Text size="xs" component="output">
            {formatCount(findCount)} found
          </Text>
        )}
        {tail !== undefined && <TailButtons tail={tail} />}
      </Group>
      <Group gap={6}>
        <Select
          w={160}
          aria-label="Time zone of the times"
          allowDeselect={false}
          value={preferences.zone === 'device' && deviceZone === undefined ? 'local' : preferences.zone}
          onChange={(zone) => onPreferences({ zone: zone === 'utc' || zone === 'device' ? zone : 'local' })}
          data={[
            { value: 'local', label: 'Your time' },
            { value: 'utc', label: 'UTC' },
            ...(deviceZone === undefined ? [] : [{ value: 'device', label: `Device (${deviceZone})` }]),
          ]}
        />
        <ViewMenu preferences={preferences} onChange={onPreferences} hasTail={tail !== undefined} />
        <ExportMenu {...props} />
        <Tooltip label="Keys (?)">
          <Button variant="default" px={8} aria-label="Show the keys" onClick={props.onHelp}>
            <IconKeyboard size={14} />
          </Button>
        </Tooltip>
      </Group>
    </Group>
  );
}

function TailButtons({ tail }: { tail: TailControl }) {
  const { state, waiting } = tail.state;
  if (state === 'off') {
    return (
      <Tooltip label="Show entries as they are written (t)">
        <Button
          variant="default"
          leftSection={<IconPlayerPlay size={14} aria-hidden />}
          onClick={tail.follow}
        >
          Follow
        </Button>
      </Tooltip>
    );
  }
  return (
    <Button.Group>
      {state === 'paused' ? (
        <Button leftSection={<IconPlayerPlay size={14} aria-hidden />} onClick={tail.resume}>
          {waiting === 0 ? 'Paused: continue' : `${formatCount(waiting)} new: show`}
        </Button>
      ) : (
        <Button
          color="teal"
          leftSection={<IconPlayerPause size={14} aria-hidden />}
          loading={state === 'starting'}
          onClick={tail.pause}
        >
          Following: pause
        </Button>
      )}
      <Button variant="default" px={8} aria-label="Stop following" onClick={tail.stop}>
        <IconPlayerStop size={14} />
      </Button>
    </Button.Group>
  );
}

function ViewMenu({
  preferences,
  onChange,
  hasTail,
}: {
  preferences: Preferences;
  onChange: (change: Partial<Preferences>) => void;
  hasTail: boolean;
}) {
  const { wrap, collapse, order, announce } = preferences;
  return (
    <Menu closeOnItemClick={false} position="bottom-end">
      <Menu.Target>
        <Button variant="default" leftSection={<IconAdjustmentsHorizontal size={14} aria-hidden />}>
          View
        </Button>
      </Menu.Target>
      <Menu.Dropdown p="xs">
        <Checkbox
          py={3}
          label="Wrap long messages"
          checked={wrap}
          onChange={() => onChange({ wrap: !wrap })}
        />
        <Checkbox
          py={3}
          label="Collapse repeats (numbers may differ)"
          checked={collapse}
          onChange={() => onChange({ collapse: !collapse })}
        />
        <Checkbox
          py={3}
          label="Oldest first"
          checked={order === 'oldest'}
          onChange={() => onChange({ order: order === 'oldest' ? 'newest' : 'oldest' })}
        />
        {hasTail && (
          <Checkbox
            py={3}
            label="Announce new entries to screen readers"
            checked={announce}
            onChange={() => onChange({ announce: !announce })}
          />
        )}
      </Menu.Dropdown>
    </Menu>
  );
}

function ExportMenu({
  exportable,
  onExport,
  isExportOpen,
  onExportOpen,
}: Pick<Props, 'exportable' | 'onExport' | 'isExportOpen' | 'onExportOpen'>) {
  return (
    <Menu position="bottom-end" opened={isExportOpen} onChange={onExportOpen}>
      <Menu.Target>
        <Button
          variant="default"
          leftSection={<IconDownload size={14} aria-hidden />}
          disabled={exportable === 0}
        >
          Export
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>The {formatCount(exportable)} entries that are shown</Menu.Label>
        <Menu.Item onClick={() => onExport('csv')}>CSV</Menu.Item>
        <Menu.Item onClick={() => onExport('jsonl')}>JSON lines</Menu.Item>
        <Menu.Item onClick={() => onExport('xml')}>XML</Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}

/** How entries are shown. Kept in this browser, for all devices. */
const Preferences = z.object({
  zone: z.enum(['local', 'utc', 'device']).catch('local'),
  wrap: z.boolean().catch(false),
  collapse: z.boolean().catch(false),
  order: z.enum(['newest', 'oldest']).catch('newest'),
  announce: z.boolean().catch(true),
});
export type Preferences = z.output<typeof Preferences>;

/** The stored value may be of another version or form. */
export const parseStored =
  <S extends z.ZodType>(schema: S, otherwise: z.output<S>) =>
  (text: string | undefined): z.output<S> => {
    try {
      const parsed = schema.safeParse(JSON.parse(text ?? ''));
      return parsed.success ? parsed.data : otherwise;
    } catch {
      return otherwise;
    }
  };

export function usePreferences(): [Preferences, (change: Partial<Preferences>) => void] {
  const [preferences, set] = useLocalStorage<Preferences>({
    key: 'muster-log-viewer',
    defaultValue: Preferences.parse({}),
    deserialize: parseStored(Preferences, Preferences.parse({})),
    getInitialValueInEffect: false,
  });
  return [preferences, (change) => set({ ...preferences, ...change })];
}
