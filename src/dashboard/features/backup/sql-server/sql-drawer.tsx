import { Alert, Drawer, Group, Select, Stack, Text } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { IconAlertTriangle } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { apiQuery, type BackupDatabaseInstance, type SqlChains } from '../../../api/index.ts';
import { useRefusal } from '../../../session/index.ts';
import { Action, Empty, Loaded } from '../../../ui/index.ts';
import { CommandStanding } from '../parts/command-standing.tsx';
import { DeviceLink } from '../parts/device-names.tsx';
import { SqlBackupDialog } from './sql-backup-dialog.tsx';
import type { ChainOrder } from './restore-path.ts';
import { SqlChain } from './sql-chain.tsx';
import { SqlChainRun } from './sql-chain-run.tsx';
import type { SqlSource } from './sql-parts.ts';

/** The databases of an instance of SQL Server, and what its own history says can be restored of them. */
export function SqlDrawer({
  instance,
  onClose,
}: {
  instance: BackupDatabaseInstance | undefined;
  onClose: () => void;
}) {
  return (
    <Drawer
      opened={instance !== undefined}
      onClose={onClose}
      position="right"
      size="xl"
      title={instance === undefined ? '' : `SQL Server ${instance.instance}`}
      closeButtonProps={{ 'aria-label': 'Close' }}
    >
      {instance !== undefined && <Instance key={instance.id} found={instance} />}
    </Drawer>
  );
}

function Instance({ found: { deviceId, instance, databases } }: { found: BackupDatabaseInstance }) {
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
      {run !== undefined && <SqlChainRun key={run.firstId} {...run} />}
      {sent !== undefined && <CommandStanding key={sent} id={sent} deviceId={deviceId} />}
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

/** Read from the device while somebody looks. */
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
          </Stack>
        )}
      </Loaded>
    </>
  );
}

const Warnings = ({ warnings }: Pick<SqlChains['data'], 'warnings'>) =>
  warnings.map(({ code, message }) => (
    <Alert key={`${code} ${message}`} color="orange" icon={<IconAlertTriangle aria-hidden />}>
      {message}
    </Alert>
  ));
