import { TextInput, type TextInputProps } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { useState, type Ref } from 'react';

/** Each value asks a device, so it is not sent with each letter, but when the person pauses. */
const PAUSE_MS = 700;

/** A field whose value counts after a pause, and at once when the person presses Enter or leaves it. */
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
  const later = useDebouncedCallback((text: string) => {
    if (check?.(text) === undefined && text.trim() !== value) onCommit(text.trim());
  }, PAUSE_MS);
  const commit = () => {
    later.cancel();
    if (error === undefined && draft.trim() !== value) onCommit(draft.trim());
  };
  return (
    <TextInput
      {...input}
      {...(ref === undefined ? {} : { ref })}
      value={draft}
      error={error}
      onChange={(event) => {
        setDraft(event.currentTarget.value);
        later(event.currentTarget.value);
      }}
      onBlur={commit}
      onKeyDown={(event) => {
        if (event.key === 'Enter') commit();
        if (event.key !== 'Escape') return;
        later.cancel();
        setDraft(value);
        event.currentTarget.blur();
      }}
    />
  );
}
