import { SimpleGrid, Stack } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { useApiChange } from '../../../api/index.ts';
import { FormDialog } from '../../../ui/index.ts';
import { EstimateFacts, WithEstimate } from './estimate.tsx';
import { HostSelect } from './host-select.tsx';
import { FolderField, NeedsFields, NetworkFields } from './machine-fields.tsx';
import { toBody, useMachineWish, type MachineSource } from './machine-wish.ts';
import { VM_READS } from './use-vm-work.ts';

/** Starts a machine straight from a snapshot, and leads to it. */
export function BootDialog({ onClose, ...source }: MachineSource & { onClose: () => void }) {
  const { snapshot } = source;
  const navigate = useNavigate();
  const { wish, set } = useMachineWish(source);
  const boot = useApiChange('POST /backup/restore/instant-boot', { refreshes: VM_READS });
  const submit = async () => {
    const { id } = await boot.mutateAsync({ body: toBody(source, wish) });
    await navigate({ to: '/backup/instant-boots', search: { boot: id } });
  };
  return (
    <FormDialog
      title="Start a machine from the snapshot"
      size="55rem"
      opened
      onClose={onClose}
      submitLabel="Start the machine"
      submit={submit}
    >
      {(faults) => (
        <WithEstimate source={source}>
          {(estimate) => (
            <>
              <EstimateFacts source={source} estimate={estimate} />
              <SimpleGrid cols={{ base: 1, md: 2 }} spacing="lg">
                <Stack gap="sm">
                  <HostSelect
                    orgId={snapshot.orgId}
                    first={snapshot.deviceId}
                    capability="backup.vm-instant-boot"
                    value={wish.deviceId}
                    onChange={(deviceId) => set({ deviceId })}
                    error={faults['targetDeviceId']}
                  />
                  <NeedsFields wish={wish} set={set} faults={faults} estimate={estimate} />
                  <FolderField wish={wish} set={set} faults={faults} />
                </Stack>
                <Stack gap="sm">
                  <NetworkFields wish={wish} set={set} faults={faults} />
                </Stack>
              </SimpleGrid>
            </>
          )}
        </WithEstimate>
      )}
    </FormDialog>
  );
}
