import { Input, Text, Textarea } from '@mantine/core';
import { useEffect, useId, useLayoutEffect, useRef, useState } from 'react';
import { SCRIPT_MAX_BYTES } from '../../../protocol/index.ts';
import { formatCount } from '../../ui/index.ts';
import type { CodeEditor, openCodeEditor } from './code-editor.ts';
import styles from './code-editor.module.css';
import type { CodeLanguage, Declared } from './parameter-text.ts';

/** Why a script of this length cannot be saved or run; undefined if it can. */
export const tooLong = (content: string): string | undefined =>
  content.length > SCRIPT_MAX_BYTES
    ? `The script has ${formatCount(content.length)} characters. At most ${formatCount(SCRIPT_MAX_BYTES)} are allowed.`
    : undefined;

interface Props {
  label: string;
  description: string;
  language: CodeLanguage;
  parameters: readonly Declared[];
  onDeclare?: (parameter: Declared) => void;
  value: string;
  onChange: (content: string) => void;
  error?: string | undefined;
  /** Takes the focus when the dialog around it opens. */
  isFirst?: boolean;
  rows: { least: number; most: number };
}

interface Loaded {
  open: typeof openCodeEditor;
  /** What was selected in the field for plain text, if that had the focus. */
  selected: { anchor: number; head: number } | undefined;
}

/**
 * A field for a script. Its editor is loaded with it; until then, and if it cannot be loaded, the field is one for plain
 * text.
 */
export function CodeField(props: Props) {
  const { label, description, value, onChange, isFirst = false, rows } = props;
  const [loaded, setLoaded] = useState<Loaded | 'failed'>();
  const plain = useRef<HTMLTextAreaElement>(null);
  const error = tooLong(value) ?? props.error;
  useEffect(() => {
    let isHere = true;
    void import('./code-editor.ts').then(
      ({ openCodeEditor: open }) => isHere && setLoaded({ open, selected: selectionIn(plain.current) }),
      () => isHere && setLoaded('failed'),
    );
    return () => {
      isHere = false;
    };
  }, []);
  if (loaded !== undefined && loaded !== 'failed') {
    return <LoadedField {...props} error={error} loaded={loaded} />;
  }
  return (
    <Textarea
      ref={plain}
      label={label}
      description={
        loaded === 'failed' ? `${description} The editor with highlighting could not be loaded.` : description
      }
      required
      rows={rows.least}
      resize="vertical"
      spellCheck={false}
      styles={{ input: { fontFamily: 'var(--mantine-font-family-monospace)' } }}
      value={value}
      onChange={(event) => onChange(event.currentTarget.value)}
      error={error}
      data-autofocus={isFirst || undefined}
    />
  );
}

const selectionIn = (field: HTMLTextAreaElement | null): Loaded['selected'] =>
  field === null || field !== document.activeElement
    ? undefined
    : { anchor: field.selectionStart, head: field.selectionEnd };

function LoadedField({
  loaded,
  label,
  description,
  language,
  parameters,
  onDeclare,
  value,
  onChange,
  error,
  isFirst = false,
  rows,
}: Props & { loaded: Loaded }) {
  const id = useId();
  const place = useRef<HTMLDivElement>(null);
  const editor = useRef<CodeEditor>(undefined);
  /** The text that the editor was given or has told of: that in it has other line breaks. */
  const told = useRef(value);
  const isInvalid = error !== undefined;
  const latest = useRef({ onChange, settings: { language, parameters, onDeclare, isInvalid } });
  const [opening] = useState({ ...loaded, isFirst, rows });
  useLayoutEffect(() => {
    latest.current = { onChange, settings: { language, parameters, onDeclare, isInvalid } };
  });
  useLayoutEffect(() => {
    const { current: element } = place;
    if (element === null) return undefined;
    const opened = opening.open(element, {
      ...latest.current.settings,
      text: told.current,
      labelledBy: `${id}-label`,
      describedBy: `${id}-description ${id}-error`,
      isFirst: opening.isFirst,
      rows: opening.rows,
      onChange: (content) => {
        told.current = content;
        latest.current.onChange(content);
      },
    });
    editor.current = opened;
    if (opening.selected !== undefined) opened.take(opening.selected);
    return () => {
      editor.current = undefined;
      opened.close();
    };
  }, [opening, id]);
  useEffect(() => {
    editor.current?.set({ language, parameters, onDeclare, isInvalid });
  }, [language, parameters, onDeclare, isInvalid]);
  useEffect(() => {
    if (value === told.current) return;
    told.current = value;
    editor.current?.replace(value);
  }, [value]);
  return (
    <Input.Wrapper
      label={label}
      labelElement="div"
      labelProps={{ id: `${id}-label`, onClick: () => editor.current?.take() }}
      description={`${description} Tab indents; Escape and then Tab leaves the field.${
        parameters.length > 0 ? ' Ctrl Space offers the parameters.' : ''
      }`}
      descriptionProps={{ id: `${id}-description` }}
      required
      error={error}
      errorProps={{ id: `${id}-error` }}
    >
      <div ref={place} className={styles['frame']} />
      <Text size="xs" mt={2}>
        {formatCount(value.length)} of {formatCount(SCRIPT_MAX_BYTES)} characters
      </Text>
    </Input.Wrapper>
  );
}
