import { Checkbox, Select, Text, TextInput } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { useApiChange, type BackupSnapshot } from '../../../api/index.ts';
import { FormDialog } from '../../../ui/index.ts';
import { DeviceSelect } from '../parts/device-names.tsx';
import { type Hypervisor, HYPERVISOR_NAMES } from '../parts/hypervisor-names.ts';

/** Restores one machine of a snapshot into its hypervisor, and leads to the restore. */
export function RestoreMachineDialog({
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
