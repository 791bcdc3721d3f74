import { Group, SegmentedControl } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { IconDownload, IconRestore } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { apiQuery, type BackupSnapshot } from '../../../api/index.ts';
import { useRefusal } from '../../../session/index.ts';
import { Action, Loaded } from '../../../ui/index.ts';
import { RestoreDatabaseDialog } from '../restores/restore-database-dialog.tsx';
import { RestoreMachineDialog } from '../restores/restore-machine-dialog.tsx';
import { SnapshotContent } from './details/content.tsx';
import type { Details } from '../parts/content-text.ts';
import { WaysBack } from './details/ways-back.tsx';
import { SnapshotFiles } from './snapshot-files.tsx';
import { NO_VOLUME, SnapshotFrame, useSnapshotSearch } from './snapshot-frame.tsx';
import { ImageFiles } from './volumes/image-files.tsx';

const route = getRouteApi('/signed-in/backup/snapshots/$snapshotId');

/** A snapshot: its files, or what it is where it is more than files. */
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

/** Why nothing of such a snapshot is downloaded here; `undefined` where single files of its disks are. */
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
            <Action
              variant="default"
              refusal={refusalOfFiles}
              leftSection={<IconDownload size={14} aria-hidden />}
              onClick={() => undefined}
            >
              Download
            </Action>
          )}
          {details.kind !== 'image' && (
            <Action refusal={refusal} leftSection={<IconRestore size={14} aria-hidden />} onClick={open}>
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
            <WaysBack snapshot={snapshot} details={details} asOf={search.asOf} />
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
