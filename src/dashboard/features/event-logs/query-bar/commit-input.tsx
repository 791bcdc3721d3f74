import { TextInput, type TextInputProps } from '@mantine/core';
import { useState, type Ref } from 'react';

/**
 * A field whose value counts when the person presses Enter or leaves it: each value asks a device, so it is not sent
 * with each letter.
 */
export function CommitInput({
  value,
  onCommit,
  check,
  ref,
  ...input
}: Omit<TextInputProps, 'value' | 'onChange' | 'ref'> & {
  value: string;
  onCommit: (value: string) => void;
  /** What is wrong with a value. */
  check?: (value: string) => string | undefined;
  ref?: Ref<HTMLInputElement>;
}) {
  const [draft, setDraft] = useState(value);
  const [shown, setShown] = useState(value);
  if (shown !== value) {
    // The value was changed elsewhere, such as by "+" on a field of an entry.
    setShown(value);
    setDraft(value);
  }
  const error = check?.(draft);
  const commit = () => {
    if (error === undefined && draft.trim() !== value) onCommit(draft.trim());
  };
  return (
    <TextInput
      {...input}
      {...(ref === undefined ? {} : { ref })}
      value={draft}
      error={error}
      onChange={(event) => setDraft(event.currentTarget.value)}
      onBlur={commit}
      onKeyDown={(event) => {
        if (event.key === 'Enter') commit();
        if (event.key !== 'Escape') return;
        setDraft(value);
        event.currentTarget.blur();
      }}
    />
  );
}
