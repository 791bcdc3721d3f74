import { Group, NumberInput, SegmentedControl, Select, Stack, Text } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import {
  CodeField,
  givenBy,
  type Started,
  tooLong,
  unfit,
  Variables,
  variablesOf,
  type Variable,
  type Given,
  startedOrRefused,
} from '../scripts/index.ts';
import { apiQuery, newIdempotencyKey, type Device, type Script, call, useList } from '../../api/index.ts';
import { useRefusal } from '../../session.ts';
import { formatCount, SYSTEM_NAMES } from '../../ui/index.ts';
import { DialogForm } from './device-dialogs.tsx';

const LANGUAGES = ['bash', 'powershell', 'python', 'cmd'] as const;
const LANGUAGE_NAMES = {
  bash: 'Bash',
  powershell: 'PowerShell',
  python: 'Python',
  cmd: 'Windows command (cmd)',
};

/** A script that is not saved declares none. */
const NO_PARAMETERS: Script['parameters'] = [];

/** Asks for a script and runs it on the devices. */
export function RunScriptForm({
  deviceIds,
  systems,
  orgId,
  firstScriptId,
  onStarted,
  onClose,
}: {
  deviceIds: readonly string[];
  /** The systems of the devices, by which scripts are offered. */
  systems: readonly Device['osType'][];
  /** The organization of the devices; left out if there are several. */
  orgId: string | undefined;
  /** The script that is chosen when the form opens. */
  firstScriptId?: string | undefined;
  onStarted: (started: Started) => void;
  onClose: () => void;
}) {
  const mayRead = useRefusal('scripts:read') === undefined;
  const mayWrite = useRefusal('devices:execute');
  const [kind, setKind] = useState<ScriptToRun['kind']>(mayRead ? 'saved' : 'written');
  const first = useQuery({
    ...apiQuery('GET /scripts/{id}', { params: { id: firstScriptId ?? '' } }),
    enabled: firstScriptId !== undefined && mayRead,
  });
  const [chosen, setScript] = useState<Script | null>();
  const script = chosen === undefined ? first.data : (chosen ?? undefined);
  /** What was typed for the parameters of a script. Another script has others. */
  const [typed, setTyped] = useState<{ script: Script | undefined; variables: readonly Variable[] }>();
  const variables =
    typed !== undefined && typed.script?.id === script?.id
      ? typed.variables
      : variablesOf(script?.parameters ?? []);
  const [language, setLanguage] = useState<(typeof LANGUAGES)[number]>(
    systems.every((system) => system === 'windows') ? 'powershell' : 'bash',
  );
  const [content, setContent] = useState('');
  const [timeoutSeconds, setTimeoutSeconds] = useState(300);
  const [key] = useState(newIdempotencyKey);

  const toRun = (): ScriptToRun | undefined => {
    if (kind === 'written') {
      return content.trim() === '' || tooLong(content) !== undefined
        ? undefined
        : { kind, language, content, timeoutSeconds };
    }
    if (script === undefined || unfit(variables) !== undefined) return undefined;
    return { kind, id: script.id, given: givenBy(variables) };
  };
  const ready = toRun();
  return (
    <DialogForm
      confirm={deviceIds.length === 1 ? 'Run' : `Run on ${formatCount(deviceIds.length)} devices`}
      isReady={ready !== undefined}
      onClose={onClose}
      run={async () => {
        if (ready !== undefined) onStarted(await runScript(ready, deviceIds, key));
      }}
    >
      <SegmentedControl
        aria-label="Which script"
        data={[
          { value: 'saved', label: 'Saved script', disabled: !mayRead },
          { value: 'written', label: 'New script', disabled: mayWrite !== undefined },
        ]}
        value={kind}
        onChange={(value) => setKind(value === 'written' ? 'written' : 'saved')}
      />
      {kind === 'saved' ? (
        <>
          <ScriptSelect
            orgId={orgId}
            systems={systems}
            value={script}
            onChange={(next) => setScript(next ?? null)}
          />
          <Variables variables={variables} onChange={(next) => setTyped({ script, variables: next })} />
        </>
      ) : (
        <>
          <Group grow>
            <Select
              label="Language"
              data={LANGUAGES.map((value) => ({ value, label: LANGUAGE_NAMES[value] }))}
              value={language}
              allowDeselect={false}
              onChange={(value) => {
                const next = LANGUAGES.find((each) => each === value);
                if (next !== undefined) setLanguage(next);
              }}
            />
            <NumberInput
              label="Timeout"
              suffix=" s"
              min={1}
              max={86_400}
              value={timeoutSeconds}
              onChange={(value) => {
                if (typeof value === 'number' && value >= 1) setTimeoutSeconds(Math.floor(value));
              }}
            />
          </Group>
          <CodeField
            label="Script"
            description="Runs with the rights of the agent, and is kept with the command."
            language={language}
            parameters={NO_PARAMETERS}
            isFirst
            rows={{ least: 6, most: 16 }}
            value={content}
            onChange={setContent}
          />
        </>
      )}
      <Text size="xs">A device that is offline runs it when it is back, within a day.</Text>
    </DialogForm>
  );
}

/** Saved scripts, searched on the server. */
function ScriptSelect({
  orgId,
  systems,
  value,
  onChange,
}: {
  orgId: string | undefined;
  systems: readonly Device['osType'][];
  value: Script | undefined;
  onChange: (script: Script | undefined) => void;
}) {
  const [text, setText] = useState('');
  const [search] = useDebouncedValue(text.trim(), 250);
  const scripts = useList('GET /scripts', {
    query: { orgId, limit: '50', search: search === value?.name ? undefined : search },
  });
  const offered = scripts.data?.data ?? [];
  const all =
    value === undefined || offered.some(({ id }) => id === value.id) ? offered : [value, ...offered];
  const fits = ({ osTypes }: Script) =>
    osTypes.length === 0 || systems.some((system) => osTypes.includes(system));
  return (
    <Stack gap={4}>
      <Select
        label="Script"
        placeholder="Search scripts"
        searchable
        data={all.map((script) => ({
          value: script.id,
          label: script.name,
          disabled: !fits(script),
        }))}
        // The server has searched.
        filter={({ options }) => options}
        searchValue={text}
        onSearchChange={setText}
        value={value?.id ?? null}
        onChange={(id) => onChange(all.find((script) => script.id === id))}
        nothingFoundMessage={
          scripts.isFetching
            ? 'Searching …'
            : search === ''
              ? 'No scripts are saved yet. Write one now, or save one under Scripts.'
              : 'No script has this name.'
        }
        error={scripts.error?.message}
        data-autofocus
      />
      {value !== undefined && (
        <Text size="xs">
          {[
            LANGUAGE_NAMES[value.language],
            value.osTypes.length === 0
              ? 'any system'
              : value.osTypes.map((system) => SYSTEM_NAMES[system]).join(', '),
            `ends after ${formatCount(value.timeoutSeconds)} s`,
            value.description,
          ]
            .filter(Boolean)
            .join(' · ')}
        </Text>
      )}
    </Stack>
  );
}

/** A script that is run on devices: a saved one, or one that is written for this once. */
type ScriptToRun =
  | { kind: 'saved'; id: string; given: Given }
  | {
      kind: 'written';
      language: 'bash' | 'powershell' | 'python' | 'cmd';
      content: string;
      timeoutSeconds: number;
    };

/** How many devices one request of each kind may name. */
export const SCRIPT_DEVICES_MAX = 500;
export const BULK_DEVICES_MAX = 1000;

/** Starts it on each device that can run it, and says which cannot. The key makes a repeated click start it once. */
function runScript(
  script: ScriptToRun,
  deviceIds: readonly string[],
  idempotencyKey: string,
): Promise<Started> {
  return startedOrRefused(request(script, [...deviceIds], idempotencyKey));
}

function request(script: ScriptToRun, deviceIds: string[], idempotencyKey: string): Promise<Started> {
  if (script.kind === 'saved') {
    const { id, given } = script;
    const body = { deviceIds, ...given };
    return call('POST /scripts/{id}/execute', { params: { id }, body }, { idempotencyKey });
  }
  const { language, content, timeoutSeconds } = script;
  const body = { deviceIds, type: 'script.run' as const, payload: { language, content, timeoutSeconds } };
  return call('POST /devices/bulk/commands', { body }, { idempotencyKey });
}
