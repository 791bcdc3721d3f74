import { Checkbox, Stack, Text, Group, List } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { useApiChange, type BackupSnapshot, type CreatedRecoveryToken } from '../../api/index.ts';
import {
  FormDialog,
  formatBytes,
  formatTime,
  Action,
  CopyText,
  Modal,
  useForm,
  Notice,
} from '../../ui/index.ts';
import { useDeviceName } from './selects.tsx';

const LIVES = [
  { value: '4', label: '4 hours' },
  { value: '24', label: 'One day' },
  { value: '72', label: 'Three days' },
  { value: '168', label: 'One week' },
];

interface Props {
  snapshot: BackupSnapshot;
  onClose: () => void;
}

/** Creates a recovery token for one image, and shows it the one time. */
export function NewTokenDialog({ snapshot, onClose }: Props) {
  const create = useApiChange('POST /backup/bmr/token', { refreshes: ['GET /backup/bmr/token'] });
  const made = create.data;
  return made === undefined ? (
    <TokenForm
      snapshot={snapshot}
      onClose={onClose}
      create={async (body) => {
        await create.mutateAsync({ body });
      }}
    />
  ) : (
    <CreatedToken made={made} onClose={onClose} />
  );
}

type Body = Parameters<ReturnType<typeof useApiChange<'POST /backup/bmr/token'>>['mutateAsync']>[0]['body'];

interface NewToken {
  what: 'whole' | 'chosen';
  disks: string[];
  hours: string;
  grow: boolean;
}

function TokenForm({ snapshot, onClose, create }: Props & { create: (body: Body) => Promise<void> }) {
  const machine = useDeviceName(snapshot.deviceId);
  const all = snapshot.details?.kind === 'image' ? snapshot.details.disks : [];
  const form = useForm<NewToken>({ what: 'whole', disks: [], hours: '24', grow: false });
  const { what, disks, hours, grow } = form.values;
  const isWhole = what === 'whole';
  const submit = () =>
    create({
      snapshotId: snapshot.id,
      expiresInHours: Number(hours),
      restoreType: isWhole ? 'bare_metal' : 'selective',
      targetConfig: { grow, ...(isWhole ? {} : { disks }) },
    });
  return (
    <FormDialog
      title="New recovery token"
      size="lg"
      onClose={onClose}
      submitLabel="Create the token"
      submit={submit}
      // The token takes the place of the form.
      onDone={() => undefined}
      form={form}
      fields={[
        {
          note: 'what it is',
          text: (
            <>
              With the token, a machine without an agent fetches the disks of {machine}, as they were on{' '}
              {formatTime(new Date(snapshot.createdAt))}. It begins one recovery.
            </>
          ),
        },
        {
          name: 'what',
          kind: 'radio',
          label: 'What is recovered',
          options: [
            { value: 'whole', label: 'The whole machine', description: 'All of its disks.' },
            {
              value: 'chosen',
              label: 'Some disks',
              disabled: all.length < 2,
              description: all.length < 2 ? 'The snapshot has one disk.' : 'Other disks are left alone.',
            },
          ],
        },
        isWhole
          ? false
          : {
              name: 'disks',
              fault: 'targetConfig.disks',
              control: (field) => (
                <Checkbox.Group label="Disks" required {...field}>
                  <Stack gap="xs" mt="xs">
                    {all.map(({ name, sizeBytes }) => (
                      <Checkbox key={name} value={name} label={`${name}, ${formatBytes(sizeBytes)}`} />
                    ))}
                  </Stack>
                </Checkbox.Group>
              ),
            },
        {
          name: 'grow',
          kind: 'checkbox',
          label: 'Use all of a larger disk',
          description: 'Extends the last partition to the end of the disk.',
        },
        {
          name: 'hours',
          fault: 'expiresInHours',
          kind: 'choice',
          label: 'Valid for',
          description: 'The recovery must begin within this time. Once begun, it may take 48 hours.',
          options: LIVES,
        },
      ]}
    />
  );
}

/** A new token, which is shown only once. */
function CreatedToken({ made, onClose }: { made: CreatedRecoveryToken; onClose: () => void }) {
  const navigate = useNavigate();
  const { id, token, command, expiresAt } = made;
  return (
    <Modal
      opened
      onClose={onClose}
      title="Copy the token now: it is shown only once"
      size="lg"
      closeOnClickOutside={false}
      closeOnEscape={false}
    >
      <Stack gap="sm">
        <Notice tone="warning" title="Anyone who has it can read the whole machine">
          It opens every file of this snapshot, and the passwords in them. Take it to the machine yourself,
          and do not send it to anyone. It begins one recovery: once a machine has begun, no other one can. It
          is valid until {formatTime(new Date(expiresAt))}.
        </Notice>
        <div>
          <Text size="sm">Token</Text>
          <CopyText label="Recovery token" text={token} />
        </div>
        <div>
          <Text size="sm">Command</Text>
          <CopyText label="Command of the recovery" text={command} />
        </div>
        <List type="ordered" size="sm" spacing={2}>
          <List.Item>
            Start the empty machine from a live Linux with a network, in the same way as the old one started
            (BIOS or UEFI).
          </List.Item>
          <List.Item>Copy the executable of the agent to it, and run the command as root.</List.Item>
          <List.Item>
            In place of DISK_OR_FOLDER, name the disk, such as /dev/sda. It is overwritten.
          </List.Item>
          <List.Item>Type the token when the command asks for it.</List.Item>
        </List>
        <Group justify="flex-end">
          <Action
            variant="default"
            onClick={() =>
              void navigate({ to: '/backup/bare-metal', search: { recovery: id } }).then(onClose)
            }
          >
            Watch the recovery
          </Action>
          <Action onClick={onClose}>I have it</Action>
        </Group>
      </Stack>
    </Modal>
  );
}
