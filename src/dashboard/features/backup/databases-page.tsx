import { Group, Stack, Text, Select, Checkbox, TextInput } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { useMutation, useQueryClient, useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import {
  call,
  type BackupDatabaseInstance,
  useList,
  apiQuery,
  type SqlChains,
  useApiChange,
} from '../../api/index.ts';
import { scopeQuery, useScope } from '../../routing.ts';
import { useRefusal } from '../../session.ts';
import {
  Action,
  Failure,
  Panel,
  StateBadge,
  When,
  List,
  Empty,
  Loaded,
  FormDialog,
  DetailsDrawer,
  formatCount,
  PartNote,
  Notice,
} from '../../ui/index.ts';
import { BackupFrame } from './backup-frame.tsx';
import { Chains } from './database-chains.tsx';
import { CommandStatus } from './facts.tsx';
import { DeviceSelect, DeviceLink } from './selects.tsx';
import { type ChainOrder, type SqlSource, stepBody, clockText, SqlChain } from './sql-chain.tsx';
import { databasesText, ENGINE_NAMES, BACKUP_TYPE_NAMES, BACKUP_TYPES, type BackupType } from './texts.ts';

const route = getRouteApi('/signed-in/backup/databases');

/** The database servers of devices, and to which instants they can be restored. */
export function DatabasesPage() {
  const { device, page = 1, servers = 1 } = route.useSearch();
  const navigate = route.useNavigate();
  const change = (next: Partial<ReturnType<typeof route.useSearch>>) =>
    void navigate({ search: (previous) => ({ ...previous, ...next }), replace: true });
  return (
    <BackupFrame
      title="Databases"
      description="What devices run, and to which point in time it can be restored."
    >
      <Group>
        <DeviceSelect
          label="Any device"
          hidesLabel
          value={device}
          onChange={(next) => change({ device: next, page: undefined, servers: undefined })}
        />
      </Group>
      <Chains deviceId={device} page={page} onPage={(next) => change({ page: next })} />
      <Servers deviceId={device} page={servers} onPage={(next) => change({ servers: next })} />
    </BackupFrame>
  );
}

const LIST = 'GET /backup/databases/instances';

/** The servers that devices have named when they were last asked. */
function Servers({
  deviceId,
  page,
  onPage,
}: {
  deviceId: string | undefined;
  page: number;
  onPage: (page: number) => void;
}) {
  const { orgId } = scopeQuery(useScope());
  const [opened, setOpened] = useState<BackupDatabaseInstance>();
  const servers = useList(LIST, { query: { orgId, deviceId, page: String(page) } });
  return (
    <Panel title="Database servers" aside={<LookAgain key={deviceId} deviceId={deviceId} />}>
      <List
        query={servers}
        noun="database servers"
        keyOf={({ id }) => id}
        onPage={onPage}
        empty={{
          title: 'No database servers are known',
          text:
            deviceId === undefined
              ? 'Choose a device above, and look for those that it runs.'
              : 'The device has named none. Look again when one is running there.',
        }}
        columns={[
          { header: 'Server', isName: true, cell: (server) => <Server server={server} /> },
          { header: 'Device', cell: (server) => <Host server={server} /> },
          {
            header: 'Databases',
            cell: ({ databases, databaseCount }) =>
              databasesText(
                databases.map(({ name }) => name),
                databaseCount,
              ),
          },
          { header: 'State', cell: (server) => <Problems server={server} /> },
          { header: 'Found', width: 110, cell: (server) => <When at={server.lastDiscoveredAt} /> },
          {
            header: 'Actions',
            width: 100,
            cell: (server) =>
              server.engine === 'mssql' ? (
                <Action inRow onClick={() => setOpened(server)}>
                  Backups
                </Action>
              ) : null,
          },
        ]}
      />
      <SqlDrawer instance={opened} onClose={() => setOpened(undefined)} />
    </Panel>
  );
}

function Server({ server: { engine, version, instance } }: { server: BackupDatabaseInstance }) {
  return (
    <>
      {ENGINE_NAMES[engine]} {version}
      <Text size="xs" c="dimmed" style={{ overflowWrap: 'anywhere' }}>
        {instance}
      </Text>
    </>
  );
}

/** The device, and whether it has more servers than it has listed. */
function Host({ server: { deviceId, instanceCount } }: { server: BackupDatabaseInstance }) {
  return (
    <>
      <DeviceLink id={deviceId} />
      {instanceCount !== undefined && (
        <Text size="xs">{formatCount(instanceCount)} servers, not all of which are listed</Text>
      )}
    </>
  );
}

function Problems({ server: { problems, unreadBecause } }: { server: BackupDatabaseInstance }) {
  if (unreadBecause !== undefined) {
    return (
      <Stack gap={4} align="flex-start">
        <StateBadge tone="warning" label="Not looked for" />
        <Text size="xs">This is what the device listed before: {unreadBecause}</Text>
      </Stack>
    );
  }
  if (problems.length === 0) return <StateBadge tone="good" label="Can be backed up" />;
  return (
    <Stack gap={4} align="flex-start">
      <StateBadge tone="warning" label="Cannot be backed up as it is" />
      {problems.map(({ code, message }) => (
        <Text key={`${code} ${message}`} size="xs">
          {message}
        </Text>
      ))}
    </Stack>
  );
}

/** Asks one device what it runs. */
function LookAgain({ deviceId }: { deviceId: string | undefined }) {
  const queries = useQueryClient();
  const refusal = useRefusal('backup:read');
  const look = useMutation({
    mutationFn: (asked: string) =>
      call('GET /backup/databases/instances/{deviceId}', {
        params: { deviceId: asked },
        query: { refresh: 'true' },
      }),
    onSuccess: () => queries.invalidateQueries({ queryKey: [LIST] }),
  });
  return (
    <Group gap="xs">
      {look.error !== null && <Failure error={look.error} />}
      <Action
        variant="default"
        refusal={
          refusal ?? (deviceId === undefined ? 'Choose a device first: one is asked at a time.' : undefined)
        }
        loading={look.isPending}
        onClick={() => deviceId !== undefined && look.mutate(deviceId)}
      >
        Look for databases
      </Action>
    </Group>
  );
}

/** The databases of an instance of SQL Server, and what its own history says can be restored of them. */
function SqlDrawer({
  instance,
  onClose,
}: {
  instance: BackupDatabaseInstance | undefined;
  onClose: () => void;
}) {
  return (
    <DetailsDrawer
      opened={instance}
      onClose={onClose}
      size="xl"
      title={instance === undefined ? '' : `SQL Server ${instance.instance}`}
    >
      {(instance) => <Instance key={instance.id} found={instance} />}
    </DetailsDrawer>
  );
}

function Instance({ found }: { found: BackupDatabaseInstance }) {
  const { deviceId, instance, databases, databaseCount } = found;
  const refusal = useRefusal('backup:execute');
  const [database, setDatabase] = useState(databases[0]?.name);
  const [isOpen, { open, close }] = useDisclosure(false);
  const [sent, setSent] = useState<string>();
  const [run, setRun] = useState<{ source: SqlSource; order: ChainOrder; firstId: string }>();
  return (
    <Stack gap="sm">
      <Text size="sm">
        On <DeviceLink id={deviceId} />. SQL Server writes its backups into files on its host, and keeps their
        history itself.
      </Text>
      <Group align="flex-end" gap="xs">
        <Select
          label="Database"
          flex={1}
          searchable
          allowDeselect={false}
          data={databases.map(({ name }) => name)}
          value={database ?? null}
          onChange={(next) => setDatabase(next ?? undefined)}
        />
        <Action
          variant="default"
          refusal={refusal ?? (database === undefined ? 'The instance has named no database.' : undefined)}
          onClick={open}
        >
          Back up to a file …
        </Action>
      </Group>
      <PartNote listed={databases.length} total={databaseCount} />
      {run !== undefined && <SqlChainRun key={run.firstId} {...run} />}
      {sent !== undefined && <CommandStatus key={sent} id={sent} deviceId={deviceId} />}
      {database !== undefined && (
        <History
          key={database}
          source={{ deviceId, instance, database }}
          onSent={setSent}
          onBegun={(order, firstId) => setRun({ source: { deviceId, instance, database }, order, firstId })}
        />
      )}
      {isOpen && database !== undefined && (
        <SqlBackupDialog source={{ deviceId, instance, database }} onSent={setSent} onClose={close} />
      )}
    </Stack>
  );
}

const RECOVERY_MODELS: Readonly<Record<string, string>> = {
  SIMPLE: 'Recovery model “simple”: there are no logs, so only each backup can be restored.',
};

/** Read from the device while the drawer is open. */
function History({
  source,
  ...begins
}: { source: SqlSource } & Pick<Parameters<typeof SqlChain>[0], 'onSent' | 'onBegun'>) {
  const chains = useQuery({
    ...apiQuery('GET /backup/mssql/chains', { query: { ...source } }),
    // A device that needed 30 seconds will need them again.
    retry: false,
    refetchOnWindowFocus: false,
  });
  return (
    <>
      <Group justify="flex-end">
        <Action
          size="compact-sm"
          variant="subtle"
          loading={chains.isFetching}
          onClick={() => void chains.refetch()}
        >
          Refresh
        </Action>
      </Group>
      <Loaded query={chains} what="Asking SQL Server for its history">
        {({ data }) => (
          <Stack gap="sm">
            {RECOVERY_MODELS[data.recoveryModel.toUpperCase()] !== undefined && (
              <Text size="sm">{RECOVERY_MODELS[data.recoveryModel.toUpperCase()]}</Text>
            )}
            <Warnings warnings={data.warnings} />
            {data.chains.length === 0 ? (
              <Empty title="Nothing can be restored">
                SQL Server knows no full backup of this database. Make one.
              </Empty>
            ) : (
              data.chains.map((chain) => (
                <SqlChain
                  key={`${chain.full.uuid} ${chain.full.id}`}
                  chain={chain}
                  source={source}
                  {...begins}
                />
              ))
            )}
            <PartNote listed={data.chains.length} total={data.chainCount} which="newest" />
          </Stack>
        )}
      </Loaded>
    </>
  );
}

const Warnings = ({ warnings }: Pick<SqlChains['data'], 'warnings'>) =>
  warnings.map(({ code, message }) => (
    <Notice key={`${code} ${message}`} tone="warning">
      {message}
    </Notice>
  ));

/** A restore of several backups, of which the first was sent. It sends each of the others when its turn has come. */
function SqlChainRun({ source, order, firstId }: { source: SqlSource; order: ChainOrder; firstId: string }) {
  const [ids, setIds] = useState([firstId]);
  const restore = useApiChange('POST /backup/mssql/restore');
  const goOn = () =>
    restore.mutate(
      { body: stepBody(source, order, ids.length) },
      { onSuccess: ({ id }) => setIds((sent) => [...sent, id]) },
    );
  const isWaiting = ids.length < order.path.length;
  return (
    <Panel title={`Restore of ${order.targetDatabase}`}>
      <Stack gap="xs">
        {isWaiting && (
          <Text size="sm">
            Keep this open. Where it ends early, the database waits, and you can go on with the next backup
            below.
          </Text>
        )}
        {order.path.map(({ backupType, finishedAt }, step) => {
          const id = ids[step];
          const isNewest = step === ids.length - 1;
          return (
            <Group key={`${step} ${finishedAt}`} gap="xs">
              <Text size="sm" fw={600}>
                {step + 1}. {BACKUP_TYPE_NAMES[backupType]} of {clockText(finishedAt)}
              </Text>
              {id === undefined ? (
                <Text size="sm">Not sent yet</Text>
              ) : (
                <CommandStatus
                  id={id}
                  deviceId={source.deviceId}
                  {...(isNewest && isWaiting ? { onDone: goOn } : {})}
                />
              )}
            </Group>
          );
        })}
        {restore.error !== null && <Failure error={restore.error} retry={goOn} />}
      </Stack>
    </Panel>
  );
}

/** Has SQL Server write a backup into a file on its host. */
function SqlBackupDialog({
  source,
  onSent,
  onClose,
}: {
  source: SqlSource;
  onSent: (id: string) => void;
  onClose: () => void;
}) {
  const [backupType, setType] = useState<BackupType>('full');
  const [outputPath, setPath] = useState('');
  const [copyOnly, setCopyOnly] = useState(false);
  const backup = useApiChange('POST /backup/mssql/backup');
  const isFull = backupType === 'full';
  const submit = async () => {
    const { id } = await backup.mutateAsync({
      body: { ...source, backupType, outputPath: outputPath.trim(), copyOnly: isFull && copyOnly },
    });
    onSent(id);
  };
  return (
    <FormDialog
      title={`Back up ${source.database} to a file`}
      opened
      onClose={onClose}
      submitLabel="Back up"
      submit={submit}
    >
      {(faults) => (
        <>
          <Select
            label="Type"
            allowDeselect={false}
            data={BACKUP_TYPES.map((value) => ({ value, label: BACKUP_TYPE_NAMES[value] }))}
            value={backupType}
            onChange={(next) => setType(BACKUP_TYPES.find((type) => type === next) ?? 'full')}
            error={faults['backupType']}
          />
          <TextInput
            label="Folder"
            required
            description="As the service of SQL Server sees it, which writes there with its own account. The file gets a new name."
            placeholder={String.raw`D:\Backups`}
            value={outputPath}
            onChange={(event) => setPath(event.currentTarget.value)}
            error={faults['outputPath']}
            data-autofocus
          />
          {isFull && (
            <Checkbox
              label="Copy only"
              description="Differential backups of other programs go on with their own full backup."
              checked={copyOnly}
              onChange={(event) => setCopyOnly(event.currentTarget.checked)}
              error={faults['copyOnly']}
            />
          )}
        </>
      )}
    </FormDialog>
  );
}
