import { MultiSelect, SegmentedControl, Select, Text } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import {
  apiQuery,
  type DeviceTarget,
  newIdempotencyKey,
  type Script,
  call,
  useList,
} from '../../api/index.ts';
import { useNames } from '../../directory.ts';
import { scopeQuery, useScope } from '../../routing.ts';
import { useRefusal } from '../../session.ts';
import { FormDialog } from '../../ui/index.ts';
import { givenBy, unfit, type Variable, Variables, variablesOf } from './variables.tsx';

interface Target {
  id: string;
  name: string;
}

const DEVICES_MAX = 1000;

/** Asks on which devices a script is to run, and with what. */
export function RunDialog({
  script,
  firstGroupId,
  onClose,
  onStarted,
}: {
  script: Script;
  /** The group that is chosen when the form opens. */
  firstGroupId?: string | undefined;
  onClose: () => void;
  /** Called with the id of the run. */
  onStarted: (runId: string) => void;
}) {
  const [kind, setKind] = useState<'devices' | 'group' | 'filter'>(
    firstGroupId === undefined ? 'devices' : 'group',
  );
  const [devices, setDevices] = useState<readonly Target[]>([]);
  const [groupId, setGroupId] = useState<string | null>(firstGroupId ?? null);
  const [filterId, setFilterId] = useState<string | null>(null);
  const [variables, setVariables] = useState<readonly Variable[]>(() => variablesOf(script.parameters));
  const [key, setKey] = useState(newIdempotencyKey);
  const { orgId: scopeOrg } = useScope();
  const orgId = script.orgId ?? scopeOrg;
  const names = useNames();
  const mayReadFilters = useRefusal('filters:read');
  const groups = useQuery({
    ...apiQuery('GET /groups', { query: { orgId, limit: '100' } }),
    enabled: kind === 'group',
  });
  const filters = useQuery({
    ...apiQuery('GET /filters'),
    enabled: kind === 'filter' && mayReadFilters === undefined,
  });
  const labelled = (each: { id: string; name: string; orgId: string }) => ({
    value: each.id,
    label: orgId === undefined ? `${each.name} · ${names.organization(each.orgId)}` : each.name,
  });
  const target = (): DeviceTarget | undefined => {
    const deviceIds = devices.map(({ id }) => id);
    if (kind === 'devices') return deviceIds.length === 0 ? undefined : { deviceIds };
    if (kind === 'group') return groupId === null ? undefined : { groupIds: [groupId] };
    return filterId === null ? undefined : { filterId };
  };
  const submit = async () => {
    const why = unfit(variables);
    if (why !== undefined) throw new Error(why);
    const chosen = target();
    if (chosen === undefined) throw new Error('There are no devices to run it on. Choose others.');
    const body = { target: chosen, ...givenBy(variables) };
    // The key makes a repeated click start it once.
    const run = await call(
      'POST /scripts/{id}/runs',
      { params: { id: script.id }, body },
      { idempotencyKey: key },
    );
    onStarted(run.id);
  };
  // Another choice is another run, for which the key of the earlier one does not count.
  const choose =
    <T,>(set: (value: T) => void) =>
    (value: T) => {
      set(value);
      setKey(newIdempotencyKey());
    };
  return (
    <FormDialog
      title={`Run ${script.name}`}
      opened
      onClose={onClose}
      submit={submit}
      submitLabel="Run"
      size="lg"
    >
      {(faults) => (
        <>
          <SegmentedControl
            aria-label="On which devices"
            data={[
              { value: 'devices', label: 'Chosen devices' },
              { value: 'group', label: 'A group' },
              { value: 'filter', label: 'A filter', disabled: mayReadFilters !== undefined },
            ]}
            value={kind}
            onChange={choose((next: string) =>
              setKind(next === 'group' ? 'group' : next === 'filter' ? 'filter' : 'devices'),
            )}
          />
          {kind === 'devices' && (
            <DeviceSelect
              orgId={orgId}
              script={script}
              chosen={devices}
              onChange={choose(setDevices)}
              error={faults['target.deviceIds']}
            />
          )}
          {kind === 'group' && (
            <Select
              label="Group"
              required
              searchable
              data={(groups.data?.data ?? []).map(labelled)}
              value={groupId}
              onChange={choose(setGroupId)}
              nothingFoundMessage={groups.isFetching ? 'Reading …' : 'There is no such group.'}
            />
          )}
          {kind === 'filter' && (
            <Select
              label="Filter"
              description="The devices that match at this moment."
              required
              searchable
              data={(filters.data?.data ?? [])
                .filter((filter) => orgId === undefined || filter.orgId === orgId)
                .map(labelled)}
              value={filterId}
              onChange={choose(setFilterId)}
              nothingFoundMessage={filters.isFetching ? 'Reading …' : 'There is no such filter.'}
            />
          )}
          <Variables variables={variables} onChange={choose(setVariables)} faults={faults} />
          <Text size="xs">A device that is offline runs it when it is back, within a day.</Text>
        </>
      )}
    </FormDialog>
  );
}

function DeviceSelect({
  orgId,
  script,
  chosen,
  onChange,
  error,
}: {
  orgId: string | undefined;
  script: Script;
  chosen: readonly Target[];
  onChange: (chosen: readonly Target[]) => void;
  error: string | undefined;
}) {
  const scope = scopeQuery(useScope());
  const [text, setText] = useState('');
  const [search] = useDebouncedValue(text.trim(), 250);
  const devices = useList('GET /devices', {
    query: { ...scope, orgId, limit: '30', search: search === '' ? undefined : search },
  });
  const found = (devices.data?.data ?? [])
    .filter(({ osType }) => script.osTypes.length === 0 || script.osTypes.includes(osType))
    .map(({ id, hostname, displayName }) => ({ id, name: displayName ?? hostname }));
  const all = [...chosen, ...found.filter(({ id }) => !chosen.some((each) => each.id === id))];
  return (
    <MultiSelect
      label="Devices"
      required
      searchable
      maxValues={DEVICES_MAX}
      data-autofocus
      data={all.map(({ id, name }) => ({ value: id, label: name }))}
      // The server has searched; what was chosen stays.
      filter={({ options }) => options}
      searchValue={text}
      onSearchChange={setText}
      value={chosen.map(({ id }) => id)}
      onChange={(ids) => onChange(all.filter(({ id }) => ids.includes(id)))}
      nothingFoundMessage={devices.isFetching ? 'Searching …' : 'No device that can run it has this name.'}
      error={error}
    />
  );
}
