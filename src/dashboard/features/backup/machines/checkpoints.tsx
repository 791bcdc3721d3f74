import { Group, Stack, Text, TextInput, Title } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { useState } from 'react';
import { useApiChange, type FoundMachine } from '../../../api/index.ts';
import { useRefusal } from '../../../session/index.ts';
import { Action, ConfirmAction, FormDialog, PagedTable, When } from '../../../ui/index.ts';

/** States to which a machine can go back. */
export function Checkpoints({
  machine,
  onOrder,
}: {
  machine: FoundMachine;
  /** Gets the command that the host was sent. */
  onOrder: (id: string) => void;
}) {
  const { deviceId, vmId, vmName, hypervisor, checkpoints } = machine;
  const [isOpen, { open, close }] = useDisclosure(false);
  const execute = useRefusal('backup:execute');
  const change = useApiChange(`POST /backup/${hypervisor}/checkpoint`);
  const order = async (action: 'delete' | 'apply', checkpointId: string) =>
    onOrder((await change.mutateAsync({ body: { deviceId, vmId, action, checkpointId } })).id);
  const button = { size: 'compact-xs', variant: 'subtle', refusal: execute } as const;
  return (
    <Stack gap="xs">
      <Group justify="space-between">
        <Title order={3} size="h5">
          Checkpoints
        </Title>
        <Action size="compact-sm" variant="default" refusal={execute} onClick={open}>
          New checkpoint …
        </Action>
      </Group>
      {checkpoints.length === 0 ? (
        <Text size="sm">There is none. Make one before something is changed in the machine.</Text>
      ) : (
        <PagedTable
          label="Checkpoints"
          rows={checkpoints}
          keyOf={({ id }) => id}
          columns={[
            { header: 'Name', isName: true, cell: ({ name }) => name },
            {
              header: 'Created',
              width: 110,
              cell: ({ createdAt }) => <When at={timeOf(createdAt)} never="Not known" />,
            },
            {
              header: 'Actions',
              align: 'right',
              cell: ({ id, name }) => (
                <Group gap={2} justify="flex-end">
                  <ConfirmAction
                    {...button}
                    title={`Go back to “${name}”`}
                    question={`What “${vmName}” has written since then is lost.`}
                    confirm="Go back"
                    run={() => order('apply', id)}
                  >
                    Go back
                  </ConfirmAction>
                  <ConfirmAction
                    {...button}
                    title={`Delete “${name}”`}
                    question="The machine stays as it is now. Nobody can go back to this state any more."
                    confirm="Delete"
                    run={() => order('delete', id)}
                  >
                    Delete
                  </ConfirmAction>
                </Group>
              ),
            },
          ]}
        />
      )}
      {isOpen && <NewCheckpoint machine={machine} onOrder={onOrder} onClose={close} />}
    </Stack>
  );
}

/** Devices write what they like. */
const timeOf = (text: string | null): string | null =>
  text === null || Number.isNaN(Date.parse(text)) ? null : text;

function NewCheckpoint({
  machine: { deviceId, vmId, vmName, hypervisor },
  onOrder,
  onClose,
}: {
  machine: FoundMachine;
  onOrder: (id: string) => void;
  onClose: () => void;
}) {
  const [name, setName] = useState('');
  const make = useApiChange(`POST /backup/${hypervisor}/checkpoint`);
  const given = name.trim();
  return (
    <FormDialog
      title={`New checkpoint of ${vmName}`}
      opened
      onClose={onClose}
      submitLabel="Make the checkpoint"
      submit={async () => {
        const { id } = await make.mutateAsync({
          body: { deviceId, vmId, action: 'create', ...(given === '' ? {} : { checkpointName: given }) },
        });
        onOrder(id);
      }}
    >
      {(faults) => (
        <>
          <Text size="sm">
            The device is asked to make it. It takes space on the host until it is deleted, and is no backup.
          </Text>
          <TextInput
            label="Name"
            description="Empty: the device names it."
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
            error={faults['checkpointName']}
            data-autofocus
          />
        </>
      )}
    </FormDialog>
  );
}
