import { ActionIcon, Code, CopyButton, Group, Tooltip } from '@mantine/core';
import { IconCheck, IconCopy } from '@tabler/icons-react';

/** Text that people paste elsewhere, such as a command or a key, with a button that copies it. */
export function CopyText({ text, label }: { text: string; label: string }) {
  return (
    <Group gap={4} wrap="nowrap" align="flex-start">
      <Code
        block
        flex={1}
        aria-label={label}
        tabIndex={0}
        style={{ whiteSpace: 'pre-wrap', wordBreak: 'break-all' }}
      >
        {text}
      </Code>
      <CopyButton value={text}>
        {({ copied, copy }) => (
          <Tooltip label={copied ? 'Copied' : 'Copy'}>
            <ActionIcon variant="default" onClick={copy} aria-label={copied ? 'Copied' : `Copy: ${label}`}>
              {copied ? <IconCheck size={16} /> : <IconCopy size={16} />}
            </ActionIcon>
          </Tooltip>
        )}
      </CopyButton>
    </Group>
  );
}
