import { Radio, Stack, TextInput } from '@mantine/core';
import { useState } from 'react';
import { useApiChange, type FoundMachine } from '../../../api/index.ts';
import { FormDialog } from '../../../ui/index.ts';
import { HYPERVISOR_NAMES } from '../parts/hypervisor-names.ts';

/** Has the host export a machine into a folder, where it stays. */
export function ExportDialog({
  machine: { deviceId, vmId, vmName, hypervisor },
  onOrder,
  onClose,
}: {
  machine: FoundMachine;
  onOrder: (id: string) => void;
  onClose: () => void;
}) {
  const [exportPath, setPath] = useState('');
  const [consistencyType, setConsistency] = useState<'application' | 'crash'>('application');
  const make = useApiChange(`POST /backup/${hypervisor}/backup`);
  const submit = async () => {
    const { id } = await make.mutateAsync({
      body: { deviceId, vmId, exportPath: exportPath.trim(), consistencyType },
    });
    onOrder(id);
  };
  return (
    <FormDialog title={`Export ${vmName}`} opened onClose={onClose} submitLabel="Export" submit={submit}>
      {(faults) => (
        <>
          <TextInput
            label="Folder"
            required
            description="A folder of the host. What is exported stays there, and is no snapshot."
            placeholder={hypervisor === 'hyperv' ? String.raw`D:\Exports` : '/srv/exports'}
            value={exportPath}
            onChange={(event) => setPath(event.currentTarget.value)}
            error={faults['exportPath']}
            data-autofocus
          />
          <Radio.Group
            label="Consistency"
            value={consistencyType}
            onChange={(value) => setConsistency(value === 'crash' ? value : 'application')}
          >
            <Stack gap="xs" mt="xs">
              <Radio
                value="application"
                label="Of the applications"
                description={`${HYPERVISOR_NAMES[hypervisor]} has the programs in the machine write what they hold.`}
              />
              <Radio
                value="crash"
                label="As after a power cut"
                description="What the programs have not written yet is missing."
              />
            </Stack>
          </Radio.Group>
        </>
      )}
    </FormDialog>
  );
}
