import { Anchor, SimpleGrid, Text } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import type { BackupSnapshot } from '../../../../api/index.ts';
import { formatBytes, formatTime, PagedTable, Panel } from '../../../../ui/index.ts';
import { BACKUP_TYPE_NAMES, databasesText, ENGINE_NAMES } from '../../parts/database-names.ts';
import { FactTable } from '../../parts/facts.tsx';
import { bootModeText, ConsistencyBadge } from '../../parts/consistency.tsx';
import { HYPERVISOR_NAMES } from '../../parts/hypervisor-names.ts';
import type { Details, DetailsOf } from '../../parts/content-text.ts';

const bytes = (size: number | null) => (size === null ? null : formatBytes(size));
const time = (at: string | null) => (at === null ? 'Not known' : formatTime(new Date(at)));

/** What is in a snapshot that is more than files. */
export function SnapshotContent({ details, snapshot }: { details: Details; snapshot: BackupSnapshot }) {
  if (details.kind === 'database') return <DatabaseContent details={details} deviceId={snapshot.deviceId} />;
  return details.kind === 'image' ? <DiskContent details={details} /> : <MachineContent details={details} />;
}

function DatabaseContent({ details, deviceId }: { details: DetailsOf<'database'>; deviceId: string }) {
  const { engine, version, instance, databases, backupType, recoverableFrom, recoverableTo } = details;
  return (
    <Panel
      title="Database server"
      aside={
        <Anchor
          size="sm"
          renderRoot={(props) => <Link {...props} to="/backup/databases" search={{ device: deviceId }} />}
        >
          All that can be restored of it
        </Anchor>
      }
    >
      <FactTable
        label="The database server"
        facts={[
          ['Engine', `${ENGINE_NAMES[engine]} ${version}`],
          ['Instance', instance],
          ['Databases', databasesText(databases)],
          ['Type', BACKUP_TYPE_NAMES[backupType]],
          ['Restorable from', recoverableFrom === null ? null : time(recoverableFrom)],
          ['Restorable up to', time(recoverableTo)],
        ]}
      />
      {backupType !== 'full' && (
        <Text size="sm">It needs backups before it. A restore looks them up, and takes all of them.</Text>
      )}
      {details.logsHeldBy === 'nobody' && (
        <Text size="sm">
          The server does not keep its logs until the next backup. Where one is gone by then, a full backup is
          made.
        </Text>
      )}
    </Panel>
  );
}

function DiskContent({ details }: { details: DetailsOf<'image'> }) {
  const { machine, system, bootMode, consistency, memoryBytes, processors, disks } = details;
  return (
    <Panel title="Whole disks">
      <SimpleGrid cols={{ base: 1, md: 2 }} spacing="xs">
        <FactTable
          label="The machine"
          facts={[
            ['Machine', machine],
            ['System', system],
            ['Starts by', bootModeText(bootMode)],
            ['Consistency', <ConsistencyBadge key="consistency" value={consistency} />],
          ]}
        />
        <FactTable
          label="What it is made of"
          facts={[
            ['Memory', bytes(memoryBytes)],
            ['Processors', processors],
          ]}
        />
      </SimpleGrid>
      <PagedTable
        label="Disks"
        rows={disks}
        keyOf={({ name, offset }) => `${name} ${offset}`}
        columns={[
          { header: 'Disk', isName: true, cell: ({ name }) => name },
          { header: 'Size', align: 'right', cell: ({ sizeBytes }) => formatBytes(sizeBytes) },
          { header: 'Sector', align: 'right', cell: ({ sectorBytes }) => formatBytes(sectorBytes) },
        ]}
      />
    </Panel>
  );
}

function MachineContent({ details }: { details: DetailsOf<'machines'> }) {
  return (
    <Panel title={`Machines of ${HYPERVISOR_NAMES[details.hypervisor]}`}>
      <PagedTable
        label="Machines"
        rows={details.machines}
        keyOf={({ id }) => id}
        columns={[
          { header: 'Machine', isName: true, cell: ({ name }) => name },
          { header: 'Starts by', cell: ({ bootMode }) => bootModeText(bootMode) },
          { header: 'Memory', align: 'right', cell: ({ memoryBytes }) => bytes(memoryBytes) ?? '–' },
          { header: 'Processors', align: 'right', cell: ({ processors }) => processors ?? '–' },
          { header: 'Consistency', cell: ({ consistency }) => <ConsistencyBadge value={consistency} /> },
          { header: 'Size', align: 'right', cell: (machine) => formatBytes(machine.bytes) },
        ]}
      />
    </Panel>
  );
}
