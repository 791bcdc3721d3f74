import { Checkbox, Group, Modal, NumberInput, Radio, Stack, Stepper, Text } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { ApiError, useApiChange, type BackupSnapshot, type VmEstimate } from '../../../api/index.ts';
import { Action, Failure } from '../../../ui/index.ts';
import { useDeviceName } from '../parts/device-names.tsx';
import { EstimateFacts, WithEstimate } from './estimate.tsx';
import { HostSelect } from './host-select.tsx';
import { FolderField, NeedsFields, NetworkFields } from './machine-fields.tsx';
import { toBody, useMachineWish, type MachineWish, type WishProps } from './machine-wish.ts';
import { VM_READS } from './use-vm-work.ts';

interface Props {
  snapshot: BackupSnapshot;
  onClose: () => void;
}

const LAST_STEP = 2;

/** Makes a virtual machine of a snapshot, whose disks are copied to a host, and leads to it. */
export function MachineWizard({ snapshot, onClose }: Props) {
  return (
    <Modal
      opened
      onClose={onClose}
      title="Restore as a machine"
      size="lg"
      closeButtonProps={{ 'aria-label': 'Close' }}
    >
      <WithEstimate snapshot={snapshot}>
        {(estimate) => <Steps snapshot={snapshot} estimate={estimate} onClose={onClose} />}
      </WithEstimate>
    </Modal>
  );
}

function Steps({ snapshot, estimate, onClose }: Props & { estimate: VmEstimate }) {
  const navigate = useNavigate();
  const [step, setStep] = useState(0);
  const { wish, set } = useMachineWish(snapshot);
  const restore = useApiChange('POST /backup/restore/as-vm', { refreshes: VM_READS });
  const faults = restore.error instanceof ApiError ? restore.error.fields : {};
  const props: WishProps = { wish, set, faults };
  const begin = () => {
    const body = toBody(snapshot, wish);
    const { diskSizeGb, format, start } = wish;
    restore.mutate(
      {
        body: {
          ...body,
          hypervisor: 'kvm',
          vmSpecs: { ...body.vmSpecs, ...(typeof diskSizeGb === 'number' ? { diskSizeGb } : {}) },
          format,
          start,
        },
      },
      {
        onSuccess: ({ id }) => {
          onClose();
          void navigate({ to: '/backup/restores', search: { view: 'machines', machine: id } });
        },
      },
    );
  };
  const missing = missingIn(wish)[step];
  return (
    <Stack>
      <Stepper active={step} onStepClick={setStep} allowNextStepsSelect={false} size="sm">
        <Stepper.Step label="Machine">
          <Stack gap="sm">
            <EstimateFacts snapshot={snapshot} estimate={estimate} />
            <NeedsFields {...props} estimate={estimate} />
            <NumberInput
              label="Size of the first disk in GiB"
              description="Empty: as before. The disk can only become larger."
              min={1}
              value={wish.diskSizeGb}
              onChange={(diskSizeGb) => set({ diskSizeGb })}
              error={faults['vmSpecs.diskSizeGb']}
            />
          </Stack>
        </Stepper.Step>
        <Stepper.Step label="Host">
          <Stack gap="sm">
            <HostSelect
              orgId={snapshot.orgId}
              first={snapshot.deviceId}
              capability="backup.vm-from-image"
              value={wish.deviceId}
              onChange={(deviceId) => set({ deviceId })}
              error={faults['targetDeviceId']}
            />
            <FolderField {...props} />
            <Radio.Group
              label="Kind of the disks"
              value={wish.format}
              onChange={(value) => set({ format: value === 'raw' ? 'raw' : 'qcow2' })}
            >
              <Stack gap="xs" mt="xs">
                <Radio
                  value="qcow2"
                  label="qcow2"
                  description="For KVM. It takes the space that is in use."
                />
                <Radio value="raw" label="raw" description="The bytes of the disk, for every hypervisor." />
              </Stack>
            </Radio.Group>
          </Stack>
        </Stepper.Step>
        <Stepper.Step label="Network">
          <Stack gap="sm">
            <NetworkFields {...props} />
            <Checkbox
              label="Start the machine"
              checked={wish.start}
              onChange={(event) => set({ start: event.currentTarget.checked })}
            />
            <Summary wish={wish} estimate={estimate} />
          </Stack>
        </Stepper.Step>
      </Stepper>
      {restore.error !== null && <Failure error={restore.error} />}
      <Group justify="flex-end">
        <Action variant="default" onClick={step === 0 ? onClose : () => setStep(step - 1)}>
          {step === 0 ? 'Cancel' : 'Back'}
        </Action>
        {step < LAST_STEP ? (
          <Action refusal={missing} onClick={() => setStep(step + 1)}>
            Next
          </Action>
        ) : (
          <Action refusal={missing} loading={restore.isPending} onClick={begin}>
            Restore
          </Action>
        )}
      </Group>
    </Stack>
  );
}

/** What each step still needs. */
const missingIn = ({ vmName, deviceId, network, bridge }: MachineWish) => [
  vmName.trim() === '' ? 'Give the machine a name first.' : undefined,
  deviceId === undefined ? 'Choose a host first.' : undefined,
  network === 'bridge' && bridge.trim() === '' ? 'Name the bridge first.' : undefined,
];

function Summary({ wish, estimate }: { wish: MachineWish; estimate: VmEstimate }) {
  const host = useDeviceName(wish.deviceId ?? '');
  return (
    <Text size="sm">
      Copies up to {estimate.diskSizeGb} GiB to {host}, as the machine {wish.vmName}
      {wish.start ? ', and starts it' : ''}. The page “Restores” shows how it goes on.
    </Text>
  );
}
