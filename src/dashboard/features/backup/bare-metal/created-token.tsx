import { Alert, Group, List, Modal, Stack, Text } from '@mantine/core';
import { IconAlertTriangle } from '@tabler/icons-react';
import { useNavigate } from '@tanstack/react-router';
import type { CreatedRecoveryToken } from '../../../api/index.ts';
import { Action, CopyText, formatTime } from '../../../ui/index.ts';

/** A token right after it was made: never again is it shown. */
export function CreatedToken({ made, onClose }: { made: CreatedRecoveryToken; onClose: () => void }) {
  const navigate = useNavigate();
  const { id, token, command, expiresAt } = made;
  return (
    <Modal
      opened
      onClose={onClose}
      title="The token is shown this once"
      size="lg"
      closeOnClickOutside={false}
      closeOnEscape={false}
      closeButtonProps={{ 'aria-label': 'Close' }}
    >
      <Stack gap="sm">
        <Alert
          color="orange"
          icon={<IconAlertTriangle aria-hidden />}
          title="Anyone who has it can read the whole machine"
        >
          It opens every file of this snapshot, and the passwords in them. Take it to the machine yourself,
          and send it to nobody. It begins one recovery: once a machine has begun, no other one can. It is
          valid until {formatTime(new Date(expiresAt))}.
        </Alert>
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
