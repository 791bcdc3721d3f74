import { Button, Card, Group, Select, Stack, Title } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { keepPreviousData, useMutation, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { apiQuery, call } from '../../api/index.ts';
import { scopeQuery, useScope } from '../../routing.ts';
import { useRefusal } from '../../session.ts';
import { Action, Failure, formatCount, PagedTable, PartNote, StateBadge } from '../../ui/index.ts';
import { isComplete, without, type Conditions, isGroup, type Condition } from './conditions.ts';
import { toApi, Refused } from './preview-panel.tsx';
import { FIELDS, operatorName, shapeOf } from './fields.ts';

/** Each member costs a count of its own. */
const MEMBERS_MAX = 12;

interface Removal {
  place: number;
  text: string;
  count: number;
}

/** Why devices are found or not: which condition removes most, and how one device stands to each condition. */
export function ExplainPanel({
  conditions,
  onDrop,
}: {
  conditions: Conditions;
  /** Takes a member out of the outermost group. */
  onDrop: ((place: number) => void) | undefined;
}) {
  const mayRead = useRefusal('devices:read');
  const refusal =
    mayRead ?? (isComplete(conditions) ? undefined : 'Fill in each condition before it can be explained.');
  return (
    <Card withBorder padding="sm">
      <Stack gap="sm">
        <Title order={2} size="h5">
          Explain
        </Title>
        <Removals conditions={conditions} refusal={refusal} onDrop={onDrop} />
        <OneDevice conditions={conditions} refusal={refusal} />
      </Stack>
    </Card>
  );
}

function Removals({
  conditions,
  refusal,
  onDrop,
}: {
  conditions: Conditions;
  refusal: string | undefined;
  onDrop: ((place: number) => void) | undefined;
}) {
  const key = JSON.stringify(conditions);
  const removals = useMutation({
    mutationFn: async (): Promise<{ key: string; rows: Removal[] }> => {
      const count = async (asked: Conditions) =>
        (await call('POST /filters/preview', { body: { conditions: toApi(asked), limit: 1 } })).data
          .totalCount;
      const all = await count(conditions);
      const rows: Removal[] = [];
      for (const [place, part] of conditions.conditions.entries()) {
        const others = without(conditions, place);
        if (others === undefined) continue;
        // One after another: each may be costly.
        // oxlint-disable-next-line no-await-in-loop
        const found = await count(others);
        rows.push({ place, text: describe(part), count: found - all });
      }
      return { key, rows: rows.sort((a, b) => b.count - a.count) };
    },
  });
  const shape =
    conditions.operator === 'OR'
      ? 'The outermost group finds what any of its members finds, so none of them removes a device.'
      : conditions.conditions.length < 2
        ? 'With one condition, that one removes every other device.'
        : conditions.conditions.length > MEMBERS_MAX
          ? `At most ${MEMBERS_MAX} members of the outermost group can be compared.`
          : undefined;
  const { data } = removals;
  return (
    <Stack gap="xs" align="flex-start">
      <Action
        variant="default"
        refusal={refusal ?? shape}
        loading={removals.isPending}
        onClick={() => removals.mutate()}
      >
        Which condition removes most?
      </Action>
      {removals.error !== null && <Failure error={removals.error} />}
      {data?.key === key && (
        <PagedTable
          label="What each condition removes"
          rows={data.rows}
          keyOf={({ place }) => String(place)}
          columns={[
            { header: 'Condition', isName: true, cell: ({ text }) => text },
            {
              header: 'Removes',
              align: 'right',
              cell: ({ count }) => (count === 1 ? '1 device' : `${formatCount(count)} devices`),
            },
            {
              header: 'Drop',
              align: 'right',
              cell: ({ place, text }) => (
                <Button
                  size="compact-xs"
                  variant="subtle"
                  disabled={onDrop === undefined}
                  aria-label={`Drop the condition: ${text}`}
                  onClick={() => onDrop?.(place)}
                >
                  Drop
                </Button>
              ),
            },
          ]}
        />
      )}
    </Stack>
  );
}

function OneDevice({ conditions, refusal }: { conditions: Conditions; refusal: string | undefined }) {
  const scope = scopeQuery(useScope());
  const [deviceId, setDeviceId] = useState<string | null>(null);
  const [text, setText] = useState('');
  const [search] = useDebouncedValue(text.trim(), 250);
  const devices = useQuery({
    ...apiQuery('GET /devices', {
      query: { ...scope, limit: '20', search: search === '' ? undefined : search },
    }),
    enabled: refusal === undefined,
    placeholderData: keepPreviousData,
  });
  const explained = useQuery({
    queryKey: ['POST /filters/explain', deviceId, JSON.stringify(conditions)],
    queryFn: ({ signal }) =>
      call(
        'POST /filters/explain',
        { body: { conditions: toApi(conditions), deviceId: deviceId ?? '' } },
        { signal },
      ),
    enabled: refusal === undefined && deviceId !== null,
    placeholderData: keepPreviousData,
  });
  const found = deviceId === null ? undefined : explained.data?.data;
  return (
    <Stack gap="xs">
      <Group gap="sm" align="flex-end">
        <Select
          w={260}
          label="Why is this device found, or not?"
          placeholder="Search devices"
          searchable
          clearable
          clearButtonProps={{ 'aria-label': 'No device' }}
          disabled={refusal !== undefined}
          data={(devices.data?.data ?? []).map(({ id, hostname, displayName }) => ({
            value: id,
            label: displayName ?? hostname,
          }))}
          // The server has searched.
          filter={({ options }) => options}
          searchValue={text}
          onSearchChange={setText}
          value={deviceId}
          onChange={setDeviceId}
          nothingFoundMessage={devices.isFetching ? 'Searching …' : 'No device has this name.'}
        />
        {found !== undefined && (
          <StateBadge
            tone={found.matched ? 'good' : 'neutral'}
            label={found.matched ? 'Matches' : 'Does not match'}
          />
        )}
      </Group>
      {explained.error !== null && <Refused error={explained.error} />}
      {found !== undefined && (
        <>
          <PagedTable
            label="Each condition for this device"
            rows={found.conditions.slice(0, SHOWN_MAX)}
            keyOf={({ path }) => path}
            columns={[
              {
                header: 'Condition',
                isName: true,
                cell: ({ field, operator }) => describeCondition({ field, operator }),
              },
              {
                header: 'Holds',
                cell: ({ matched }) => (
                  <StateBadge tone={matched ? 'good' : 'neutral'} label={matched ? 'Yes' : 'No'} />
                ),
              },
              { header: 'Its value', cell: ({ value, valueCount }) => shown(value, valueCount) },
            ]}
          />
          <PartNote
            listed={Math.min(found.conditions.length, SHOWN_MAX)}
            total={found.conditionCount ?? found.conditions.length}
          />
        </>
      )}
    </Stack>
  );
}

/** More would be no explanation. */
const SHOWN_MAX = 100;

function shown(value: unknown, valueCount: number | undefined): string {
  if (value === null || value === undefined) return 'No value';
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  const count = valueCount === undefined ? '' : ` (${formatCount(valueCount)} values)`;
  return text.length > 80 ? `${text.slice(0, 80)}…${count}` : `${text}${count}`;
}

const BY_NAME = new Map(FIELDS.map((field) => [field.name, field]));

/** A condition as a short sentence: "Status is online". */
function describe(part: Condition | Conditions): string {
  if (isGroup(part)) {
    const members = part.conditions.slice(0, 3).map(describe);
    const more = part.conditions.length - members.length;
    return `(${[...members, ...(more > 0 ? [`${more} more`] : [])].join(part.operator === 'AND' ? ' and ' : ' or ')})`;
  }
  return describeCondition(part);
}

function describeCondition({ field, operator, value }: Condition): string {
  const known = BY_NAME.get(field);
  const shown =
    shapeOf(operator) === 'none' || value === undefined
      ? ''
      : ` ${typeof value === 'string' ? value : JSON.stringify(value)}`;
  return `${known?.label ?? field} ${operatorName(operator, known?.kind ?? 'string')}${shown.slice(0, 120)}`;
}
