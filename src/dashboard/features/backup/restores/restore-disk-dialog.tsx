import { Alert, Checkbox, Radio, Select, Stack, TextInput } from '@mantine/core';
import { IconAlertTriangle } from '@tabler/icons-react';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { useApiChange, type BackupSnapshot } from '../../../api/index.ts';
import { FormDialog, formatBytes } from '../../../ui/index.ts';
import { DeviceSelect } from '../parts/device-names.tsx';
import type { DetailsOf } from '../parts/content-text.ts';

/** Restores one disk of an image to a file or onto a disk of a device, and leads to the restore. */
export function RestoreDiskDialog({
  snapshot,
  disks,
  asOf,
  onClose,
}: {
  snapshot: BackupSnapshot;
  disks: DetailsOf<'image'>['disks'];
  /** The state of the backup store that is restored from; without it, that of now. */
  asOf?: string | undefined;
  onClose: () => void;
}) {
  const navigate = useNavigate();
  const [disk, setDisk] = useState(disks[0]?.name);
  const [deviceId, setDevice] = useState<string | undefined>(snapshot.deviceId);
  const [place, setPlace] = useState<'file' | 'disk'>('file');
  const [targetPath, setPath] = useState('');
  const [isReplacing, setReplacing] = useState(false);
  const [grow, setGrow] = useState(false);
  const restore = useApiChange('POST /backup/restore', { refreshes: ['GET /backup/restore'] });
  const isDisk = place === 'disk';
  const submit = async () => {
    const { id } = await restore.mutateAsync({
      body: {
        snapshotId: snapshot.id,
        restoreType: 'image',
        ...(disk === undefined ? {} : { disk }),
        ...(deviceId === undefined ? {} : { deviceId }),
        targetPath: targetPath.trim(),
        overwrite: isReplacing ? 'always' : 'never',
        grow,
        ...(asOf === undefined ? {} : { asOf }),
      },
    });
    await navigate({ to: '/backup/restores', search: { restore: id } });
  };
  return (
    <FormDialog
      title="Restore a disk"
      size="lg"
      opened
      onClose={onClose}
      submitLabel="Restore"
      submit={submit}
    >
      {(faults) => (
        <>
          <Select
            label="Disk"
            required
            allowDeselect={false}
            data={disks.map(({ name, sizeBytes }) => ({
              value: name,
              label: `${name}, ${formatBytes(sizeBytes)}`,
            }))}
            value={disk ?? null}
            onChange={(next) => setDisk(next ?? undefined)}
            error={faults['disk']}
          />
          <DeviceSelect
            label="To which device"
            description="The device that was backed up, or another one of its organization."
            orgId={snapshot.orgId}
            value={deviceId}
            onChange={setDevice}
            error={faults['deviceId']}
          />
          <Radio.Group
            label="To where"
            value={place}
            onChange={(value) => {
              setPlace(value === 'disk' ? 'disk' : 'file');
              setReplacing(false);
            }}
          >
            <Stack gap="xs" mt="xs">
              <Radio
                value="file"
                label="A file"
                description="With the bytes of the disk. It takes the space that is in use."
              />
              <Radio
                value="disk"
                label="A whole disk"
                description="One that is not mounted and at least as large."
              />
            </Stack>
          </Radio.Group>
          <TextInput
            label={isDisk ? 'Disk of the device' : 'File'}
            required
            placeholder={isDisk ? '/dev/sdb' : '/srv/restored/sda.img'}
            value={targetPath}
            onChange={(event) => setPath(event.currentTarget.value)}
            error={faults['targetPath']}
            data-autofocus
          />
          {isDisk && (
            <Alert color="red" icon={<IconAlertTriangle aria-hidden />} title="The disk is overwritten">
              Everything that is on {targetPath.trim() === '' ? 'it' : targetPath.trim()} is lost.
            </Alert>
          )}
          <Checkbox
            label={isDisk ? 'Everything on that disk may be lost' : 'Replace the file where it is there'}
            required={isDisk}
            checked={isReplacing}
            onChange={(event) => setReplacing(event.currentTarget.checked)}
            error={faults['overwrite']}
          />
          <Checkbox
            label="Use all of a larger disk"
            description="The last partition then reaches its end."
            checked={grow}
            onChange={(event) => setGrow(event.currentTarget.checked)}
            error={faults['grow']}
          />
        </>
      )}
    </FormDialog>
  );
}
