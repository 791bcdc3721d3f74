import { Alert, Button, Group, Text, TextInput } from '@mantine/core';
import { IconHistory } from '@tabler/icons-react';
import { useState } from 'react';
import { formatTime } from '../../../ui/index.ts';
import { fromLocalField, localField } from '../parts/local-time.ts';

const fieldOf = (asOf: string | undefined): string => (asOf === undefined ? '' : localField(new Date(asOf)));

interface AsOfProps {
  asOf: string | undefined;
  onChange: (asOf: string | undefined) => void;
}

/** Chooses the time whose state of the backup store is shown. */
export const AsOfField = (props: AsOfProps) => <Field key={props.asOf ?? ''} {...props} />;

/** The time counts when it is entered, because each figure of it makes a time of its own. */
function Field({ asOf, onChange }: AsOfProps) {
  const [text, setText] = useState(fieldOf(asOf));
  const enter = () => {
    if (text === fieldOf(asOf)) return;
    onChange(fromLocalField(text)?.toISOString());
  };
  return (
    <Group gap="xs" wrap="nowrap">
      <Text size="sm" component="label" htmlFor="as-of">
        As of
      </Text>
      <TextInput
        id="as-of"
        type="datetime-local"
        step={1}
        w={210}
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
        onBlur={enter}
        onKeyDown={(event) => {
          if (event.key === 'Enter') enter();
        }}
      />
    </Group>
  );
}

/** Says that what is shown is not how it is now. */
export function AsOfNotice({ asOf, onEnd }: { asOf: string; onEnd: () => void }) {
  return (
    <Alert
      color="blue"
      icon={<IconHistory aria-hidden />}
      title={`The backup store as it was on ${formatTime(new Date(asOf))}`}
    >
      <Group justify="space-between">
        <Text size="sm">
          What came later is left out, and what was removed since is there. Downloads and restores take this
          state.
        </Text>
        <Button size="compact-sm" variant="default" onClick={onEnd}>
          Show it as it is now
        </Button>
      </Group>
    </Alert>
  );
}
