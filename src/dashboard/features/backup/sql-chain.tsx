import { Group, Paper, Stack, Text, Title } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { useState } from 'react';
import { useApiChange, type Input, type SqlChains } from '../../api/index.ts';
import { useRefusal } from '../../session.ts';
import {
  Action,
  formatBytes,
  formatCounted,
  PagedTable,
  StateBadge,
  FormDialog,
  useForm,
} from '../../ui/index.ts';
import { BACKUP_TYPE_NAMES } from './texts.ts';

/** A full backup of SQL Server's history, with what joins it. */
export function SqlChain({
  chain,
  source,
  onSent,
  onBegun,
}: {
  chain: Chain;
  source: SqlSource;
  onSent: (id: string) => void;
  /** The restore of several backups has begun. */
  onBegun: (order: ChainOrder, firstId: string) => void;
}) {
  const { full, differentials, logs, hasGap, recoverableTo, isOurs } = chain;
  const [isOpen, { open, close }] = useDisclosure(false);
  const refusal = useRefusal('recovery:execute');
  const [restored, setRestored] = useState<SqlSet>();
  return (
    <Paper withBorder p="sm">
      <Stack gap={4}>
        <Group gap="xs">
          <Title order={3} size="h5">
            Full backup of {clockText(full.finishedAt)}
          </Title>
          {!isOurs && <StateBadge tone="info" label="Of another program" />}
          {full.isCopyOnly && <StateBadge tone="info" label="Copy only" />}
          {hasGap && <StateBadge tone="warning" label="A log is missing" />}
          <Action size="compact-xs" variant="light" refusal={refusal ?? noRestore(full)} onClick={open}>
            Restore with its chain …
          </Action>
        </Group>
        <Text size="sm">
          With {formatCounted(differentials.length, 'differential backup')} and{' '}
          {formatCounted(logs.length, 'log')}, it can be restored up to {clockText(recoverableTo)} by the
          clock of the machine.
        </Text>
        <PagedTable
          label={`Backups of the chain of ${clockText(full.finishedAt)}`}
          // The history may name several backups alike.
          rows={setsOf(chain).map((set, place) => ({ ...set, key: `${place}` }))}
          keyOf={({ key }) => key}
          columns={[
            { header: 'Ended', isName: true, width: 190, cell: ({ finishedAt }) => clockText(finishedAt) },
            { header: 'Type', width: 150, cell: ({ backupType }) => BACKUP_TYPE_NAMES[backupType] },
            {
              header: 'File',
              cell: ({ file }) => <span style={{ overflowWrap: 'anywhere' }}>{file ?? 'Not known'}</span>,
            },
            {
              header: 'Size',
              align: 'right',
              width: 80,
              cell: ({ sizeBytes }) => (sizeBytes === null ? '–' : formatBytes(sizeBytes)),
            },
            {
              header: 'Actions',
              width: 90,
              cell: (set) => (
                <Action inRow refusal={refusal ?? noRestore(set)} onClick={() => setRestored(set)}>
                  Restore …
                </Action>
              ),
            },
          ]}
        />
      </Stack>
      {isOpen && <SqlChainDialog chain={chain} source={source} onBegun={onBegun} onClose={close} />}
      {restored !== undefined && (
        <SqlRestoreDialog
          source={source}
          set={restored}
          onSent={onSent}
          onClose={() => setRestored(undefined)}
        />
      )}
    </Paper>
  );
}

const STOP_AT = {
  name: 'stopAt',
  kind: 'time',
  label: 'Up to',
  description: 'By the clock of the machine. Empty: all of the log.',
} as const;
const NO_RECOVERY = {
  name: 'noRecovery',
  kind: 'checkbox',
  label: 'More backups follow',
  description: 'The database then waits for them, and cannot be used until the last one.',
} as const;

/** Has SQL Server restore one backup: a full one as a new database, and the others into one that waits for them. */
function SqlRestoreDialog({
  source,
  set,
  onSent,
  onClose,
}: {
  source: SqlSource;
  set: SqlSet;
  onSent: (id: string) => void;
  onClose: () => void;
}) {
  const { database } = source;
  const { backupType, file } = set;
  const isFull = backupType === 'full';
  const form = useForm({ targetDatabase: `${database}_restored`, noRecovery: false, stopAt: '' });
  const restore = useApiChange('POST /backup/mssql/restore');
  const submit = async () => {
    const { targetDatabase, ...options } = form.values;
    const order = { ...options, path: [set], targetDatabase: targetDatabase.trim() };
    const { id } = await restore.mutateAsync({ body: stepBody(source, order, 0) });
    onSent(id);
  };
  return (
    <FormDialog
      title={`Restore: ${BACKUP_TYPE_NAMES[backupType].toLowerCase()} of ${database}`}
      size="lg"
      onClose={onClose}
      submitLabel="Restore"
      submit={submit}
      form={form}
      fields={[
        { note: 'file', text: <div style={{ overflowWrap: 'anywhere' }}>From {file}.</div> },
        {
          name: 'targetDatabase',
          label: isFull ? 'New database' : 'Database',
          required: true,
          description: isFull
            ? 'A new name: nothing that is there is replaced.'
            : 'One that the full backup was restored to without recovery.',
        },
        backupType === 'log' && STOP_AT,
        NO_RECOVERY,
      ]}
    />
  );
}

const isRestorable = ({ path }: { path: readonly SqlSet[] }): boolean =>
  path.every((set) => noRestore(set) === undefined);

/** Restores a new database up to a backup of a chain, or to a time within its last log. Sends the first step. */
function SqlChainDialog({
  chain,
  source,
  onBegun,
  onClose,
}: {
  chain: Chain;
  source: SqlSource;
  /** The first step was sent, by this command. */
  onBegun: (order: ChainOrder, firstId: string) => void;
  onClose: () => void;
}) {
  const ends = setsOf(chain).map((set) => ({ set, path: pathTo(chain, set) }));
  const form = useForm(() => ({
    targetDatabase: `${source.database}_restored`,
    end: String(ends.findLastIndex(isRestorable)),
    stopAt: '',
    noRecovery: false,
  }));
  const restore = useApiChange('POST /backup/mssql/restore');
  const { end, targetDatabase, stopAt, noRecovery } = form.values;
  const { set: last, path } = ends[Number(end)] ?? { set: chain.full, path: [chain.full] };
  const submit = async () => {
    const order = { path, targetDatabase: targetDatabase.trim(), stopAt, noRecovery };
    const { id } = await restore.mutateAsync({ body: stepBody(source, order, 0) });
    onBegun(order, id);
  };
  return (
    <FormDialog
      title={`Restore ${source.database} with its chain`}
      size="lg"
      onClose={onClose}
      submitLabel="Restore"
      submit={submit}
      form={form}
      fields={[
        {
          name: 'targetDatabase',
          label: 'New database',
          required: true,
          description: 'A new name: nothing that is there is replaced.',
        },
        {
          name: 'end',
          kind: 'choice',
          label: 'With everything up to',
          description: 'What needs a backup whose file is not known cannot be chosen.',
          options: ends.map((each, at) => ({
            value: String(at),
            label: `${BACKUP_TYPE_NAMES[each.set.backupType]} of ${clockText(each.set.finishedAt)}`,
            disabled: !isRestorable(each),
          })),
        },
        last.backupType === 'log' && STOP_AT,
        NO_RECOVERY,
        {
          note: 'steps',
          text: `${formatCounted(path.length, 'backup')} ${path.length === 1 ? 'is' : 'are'} restored, each when the one before has succeeded.`,
        },
      ]}
    />
  );
}

/** A database of an instance of a device. */
export interface SqlSource {
  deviceId: string;
  instance: string;
  database: string;
}

/** One backup of the history of SQL Server. */
type SqlSet = SqlChains['data']['chains'][number]['full'];

/** By the clock of the machine: "2026-11-23T09:30:00" → "2026-11-23 09:30:00". */
export const clockText = (at: string): string => at.replace('T', ' ');

/** Restores of several backups of SQL Server's history, one after another. */

type Chain = SqlChains['data']['chains'][number];

/** All backups of a chain: the full one, the differential ones, the logs. */
const setsOf = ({ full, differentials, logs }: Chain): SqlSet[] => [full, ...differentials, ...logs];

/** Why a backup cannot be restored; `undefined` if it can. */
function noRestore({ file, isDamaged }: SqlSet): string | undefined {
  if (isDamaged) return 'SQL Server has marked this backup as damaged.';
  return file === null ? 'SQL Server does not say in which file it is.' : undefined;
}

const isBeyond = (set: SqlSet, before: SqlSet): boolean => BigInt(set.lastLsn) > BigInt(before.lastLsn);

/** The backups to restore for one backup: the full one, the newest usable differential one, and the logs after it. */
function pathTo({ full, differentials, logs }: Chain, end: SqlSet): SqlSet[] {
  if (end.backupType === 'full') return [full];
  if (end.backupType === 'differential') return [full, end];
  const [base = full] = differentials
    .filter((each) => noRestore(each) === undefined && !isBeyond(each, end))
    .sort((a, b) => (isBeyond(a, b) ? -1 : 1));
  const needed = logs.filter((log) => isBeyond(log, base) && !isBeyond(log, end));
  return base === full ? [full, ...needed] : [full, base, ...needed];
}

export interface ChainOrder {
  path: readonly SqlSet[];
  targetDatabase: string;
  /** As a field for times holds it. Empty: all of the last backup. */
  stopAt: string;
  /** The database waits for more, also after the last one. */
  noRecovery: boolean;
}

/** Fields for times leave out seconds that are zero. */
const withSeconds = (time: string): string => (time.length === 16 ? `${time}:00` : time);

/** The request to restore one backup of the path. */
export function stepBody(
  { deviceId, instance }: SqlSource,
  { path, targetDatabase, stopAt, noRecovery }: ChainOrder,
  step: number,
): Input<'POST /backup/mssql/restore'>['body'] {
  const set = path[step];
  if (set === undefined) throw new Error(`The restore has no step ${step}.`);
  const isLast = step === path.length - 1;
  return {
    deviceId,
    instance,
    backupFile: set.file ?? '',
    targetDatabase,
    backupType: set.backupType,
    noRecovery: !isLast || noRecovery,
    ...(isLast && set.backupType === 'log' && stopAt !== '' ? { stopAt: withSeconds(stopAt) } : {}),
  };
}
