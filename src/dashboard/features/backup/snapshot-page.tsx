import { Group, SegmentedControl, Checkbox, Select, Text, TextInput, SimpleGrid } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { IconDownload, IconRestore } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi, useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { apiQuery, type BackupSnapshot, useApiChange } from '../../api/index.ts';
import { useRefusal } from '../../session.ts';
import {
  Action,
  Loaded,
  FormDialog,
  formatBytes,
  formatTime,
  PagedTable,
  Panel,
  TextLink,
  FactTable,
} from '../../ui/index.ts';
import { RestoreDatabaseDialog } from './restore-database-dialog.tsx';
import {
  type Details,
  type DetailsOf,
  BACKUP_TYPE_NAMES,
  databasesText,
  ENGINE_NAMES,
  type Hypervisor,
  HYPERVISOR_NAMES,
} from './texts.ts';
import { RestoreOptions } from './restore-options.tsx';
import { SnapshotFiles } from './snapshot-files.tsx';
import { NO_VOLUME, SnapshotFrame, useSnapshotSearch } from './snapshot-frame.tsx';
import { ImageFiles } from './image-files.tsx';
import { DeviceSelect } from './selects.tsx';
import { bootModeText, ConsistencyBadge } from './facts.tsx';

const route = getRouteApi('/signed-in/backup/snapshots/$snapshotId');

/** A snapshot: its files, or a description if it holds more than files. */
export function SnapshotPage() {
  const { snapshotId } = route.useParams();
  const snapshot = useQuery(apiQuery('GET /backup/snapshots/{id}', { params: { id: snapshotId } }));
  return (
    <Loaded query={snapshot} what="Reading the snapshot">
      {(shown) =>
        shown.details === null ? (
          <SnapshotFiles key={snapshotId} snapshot={shown} />
        ) : (
          <SnapshotOfMore key={snapshotId} snapshot={shown} details={shown.details} />
        )
      }
    </Loaded>
  );
}

/** Why a snapshot of a kind cannot be restored from here. */
const noRestore = (details: Details, asOf: string | undefined): string | undefined =>
  details.kind === 'machines' && asOf !== undefined
    ? 'Machines are restored from the backup store as it is now.'
    : undefined;

/** Why nothing of such a snapshot is downloaded here; `undefined` if single files of its disks are. */
function noFiles(details: Details): string | undefined {
  if (details.kind === 'database') return 'A database is no folder: restore it to a folder of a device.';
  return details.kind === 'machines' && details.hypervisor === 'hyperv'
    ? 'What is in the disks of machines of Hyper-V is not read here.'
    : undefined;
}

function SnapshotOfMore({ snapshot, details }: { snapshot: BackupSnapshot; details: Details }) {
  const [isOpen, { open, close }] = useDisclosure(false);
  const { search, go, removal } = useSnapshotSearch(snapshot);
  const refusal = useRefusal('recovery:execute') ?? noRestore(details, search.asOf) ?? removal;
  const refusalOfFiles = noFiles(details);
  const view = refusalOfFiles === undefined && search.view === 'files' ? 'files' : 'machine';
  return (
    <SnapshotFrame
      snapshot={snapshot}
      actions={
        <>
          {refusalOfFiles !== undefined && (
            <Action variant="default" refusal={refusalOfFiles} icon={IconDownload} onClick={() => undefined}>
              Download
            </Action>
          )}
          {details.kind !== 'image' && (
            <Action refusal={refusal} icon={IconRestore} onClick={open}>
              Restore …
            </Action>
          )}
        </>
      }
    >
      {refusalOfFiles === undefined && (
        <Group>
          <SegmentedControl
            aria-label="What is shown"
            size="xs"
            data={[
              { value: 'machine', label: details.kind === 'image' ? 'Machine' : 'Machines' },
              { value: 'files', label: 'Files' },
            ]}
            value={view}
            onChange={(next) => go({ ...NO_VOLUME, view: next === 'files' ? next : undefined })}
          />
        </Group>
      )}
      {view === 'files' ? (
        <ImageFiles
          snapshot={snapshot}
          {...(details.kind === 'machines' ? { machines: details.machines } : {})}
        />
      ) : (
        <>
          {details.kind !== 'database' && refusalOfFiles === undefined && (
            <RestoreOptions snapshot={snapshot} details={details} asOf={search.asOf} />
          )}
          <SnapshotContent details={details} snapshot={snapshot} />
        </>
      )}
      {isOpen && details.kind === 'database' && (
        <RestoreDatabaseDialog
          source={{
            snapshotId: snapshot.id,
            orgId: snapshot.orgId,
            deviceId: snapshot.deviceId,
            engine: details.engine,
            databases: details.databases,
            upTo: details.recoverableTo,
            ranges: [],
          }}
          asOf={search.asOf}
          onClose={close}
        />
      )}
      {isOpen && details.kind === 'machines' && (
        <RestoreMachineDialog
          snapshot={snapshot}
          hypervisor={details.hypervisor}
          machines={details.machines}
          onClose={close}
        />
      )}
    </SnapshotFrame>
  );
}

/** Restores one machine of a snapshot into its hypervisor, and leads to the restore. */
function RestoreMachineDialog({
  snapshot,
  hypervisor,
  machines,
  onClose,
}: {
  snapshot: BackupSnapshot;
  hypervisor: Hypervisor;
  machines: readonly { id: string; name: string }[];
  onClose: () => void;
}) {
  const navigate = useNavigate();
  const [deviceId, setDevice] = useState<string | undefined>(snapshot.deviceId);
  const [machine, setMachine] = useState(machines[0]?.id);
  const [vmName, setName] = useState('');
  const [targetPath, setPath] = useState('');
  const [generateNewId, setNewId] = useState(true);
  const restore = useApiChange(`POST /backup/${hypervisor}/restore`, { refreshes: ['GET /backup/restore'] });
  const submit = async () => {
    const { id } = await restore.mutateAsync({
      body: {
        snapshotId: snapshot.id,
        generateNewId,
        ...(deviceId === undefined ? {} : { deviceId }),
        ...(machine === undefined ? {} : { machine }),
        ...(vmName.trim() === '' ? {} : { vmName: vmName.trim() }),
        ...(targetPath.trim() === '' ? {} : { targetPath: targetPath.trim() }),
      },
    });
    await navigate({ to: '/backup/restores', search: { restore: id } });
  };
  return (
    <FormDialog
      title="Restore a machine"
      size="lg"
      opened
      onClose={onClose}
      submitLabel="Restore"
      submit={submit}
    >
      {(faults) => (
        <>
          <Select
            label="Machine"
            required
            allowDeselect={false}
            data={machines.map(({ id, name }) => ({ value: id, label: name }))}
            value={machine ?? null}
            onChange={(next) => setMachine(next ?? undefined)}
            error={faults['machine']}
          />
          <DeviceSelect
            label="To which host"
            description="The device that was backed up, or another host of its organization."
            orgId={snapshot.orgId}
            value={deviceId}
            onChange={setDevice}
            error={faults['deviceId']}
          />
          <TextInput
            label="Name"
            description="What the machine is called then. Empty: as before."
            value={vmName}
            onChange={(event) => setName(event.currentTarget.value)}
            error={faults['vmName']}
          />
          <TextInput
            label="Folder"
            description={`A folder of the host. Empty: where ${HYPERVISOR_NAMES[hypervisor]} keeps new machines.`}
            value={targetPath}
            onChange={(event) => setPath(event.currentTarget.value)}
            error={faults['targetPath']}
          />
          <Checkbox
            label="With an id of its own"
            description="A copy beside the machine. Without it, the restore fails where the machine is still there."
            checked={generateNewId}
            onChange={(event) => setNewId(event.currentTarget.checked)}
          />
          <Text size="sm">The machine is not started. The page “Restores” shows how it goes on.</Text>
        </>
      )}
    </FormDialog>
  );
}

const bytes = (size: number | null) => (size === null ? null : formatBytes(size));
const time = (at: string | null) => (at === null ? 'Not known' : formatTime(new Date(at)));

/** The content of a snapshot that is more than files. */
function SnapshotContent({ details, snapshot }: { details: Details; snapshot: BackupSnapshot }) {
  if (details.kind === 'database') return <DatabaseContent details={details} deviceId={snapshot.deviceId} />;
  return details.kind === 'image' ? <DiskContent details={details} /> : <MachineContent details={details} />;
}

function DatabaseContent({ details, deviceId }: { details: DetailsOf<'database'>; deviceId: string }) {
  const { engine, version, instance, databases, backupType, recoverableFrom, recoverableTo } = details;
  return (
    <Panel
      title="Database server"
      aside={
        <TextLink size="sm" to="/backup/databases" search={{ device: deviceId }}>
          All that can be restored of it
        </TextLink>
      }
    >
      <FactTable
        label="The database server"
        facts={[
          ['Engine', `${ENGINE_NAMES[engine]} ${version}`],
          ['Instance', instance],
          ['Databases', databasesText(databases, details.databaseCount)],
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
