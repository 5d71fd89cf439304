/**
 * Jute, the encoding of ZooKeeper's protocol: big-endian integers, lengths before bytes. 64-bit
 * integers are `bigint`: a transaction id as a double loses its last digits beyond 2^53.
 *
 * Format: the records of `zookeeper.jute` in ZooKeeper's source tree.
 */

const EMPTY = Buffer.alloc(0);
/** An ensemble with a great many names answers with a long list; more than this is no answer. */
const LONGEST_FRAME = 64 * 1024 * 1024;

/** Writes one record. */
export class JuteWriter {
  readonly #parts: Buffer[] = [];

  int(value: number): this {
    const bytes = Buffer.allocUnsafe(4);
    bytes.writeInt32BE(value);
    return this.#add(bytes);
  }

  long(value: bigint): this {
    const bytes = Buffer.allocUnsafe(8);
    bytes.writeBigInt64BE(value);
    return this.#add(bytes);
  }

  bool(value: boolean): this {
    return this.#add(Buffer.from([value ? 1 : 0]));
  }

  buffer(value: Uint8Array): this {
    this.int(value.length);
    return this.#add(Buffer.from(value));
  }

  text(value: string): this {
    return this.buffer(Buffer.from(value, "utf8"));
  }

  /** What was written, with its length in front: one frame. */
  frame(): Buffer {
    const body = Buffer.concat([EMPTY, ...this.#parts]);
    const head = Buffer.allocUnsafe(4);
    head.writeInt32BE(body.length);
    return Buffer.concat([head, body]);
  }

  #add(bytes: Buffer): this {
    this.#parts.push(bytes);
    return this;
  }
}

/** Reads one record. @throws RangeError where it ends too soon. */
export class JuteReader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  /** Bytes that were not read yet. */
  get left(): number {
    return this.#bytes.length - this.#at;
  }

  int(): number {
    return this.#take(4).readInt32BE();
  }

  long(): bigint {
    return this.#take(8).readBigInt64BE();
  }

  bool(): boolean {
    return this.#take(1)[0] === 1;
  }

  /** Bytes; a length below 0 stands for none. */
  buffer(): Buffer {
    const length = this.int();
    return length < 0 ? EMPTY : this.#take(length);
  }

  text(): string {
    return this.buffer().toString("utf8");
  }

  texts(): readonly string[] {
    const count = this.int();
    return Array.from({ length: Math.max(0, count) }, () => this.text());
  }

  #take(length: number): Buffer {
    if (length > this.left) throw new RangeError(`a record ends ${length - this.left} bytes early`);
    this.#at += length;
    return this.#bytes.subarray(this.#at - length, this.#at);
  }
}

/** Cuts a stream into frames, whatever pieces it comes in. */
export class Frames {
  #pieces: Buffer[] = [];
  #length = 0;

  /**
   * The frames that are complete now.
   *
   * @throws RangeError for a length that no server sends: the stream is not ZooKeeper's.
   */
  *push(piece: Buffer): Generator<Buffer, void, undefined> {
    this.#pieces.push(piece);
    this.#length += piece.length;
    while (this.#length >= 4) {
      const length = this.#joined(4).readInt32BE();
      if (length < 0 || length > LONGEST_FRAME) {
        throw new RangeError(`a frame of ${length} bytes is not of ZooKeeper's protocol`);
      }
      if (this.#length < 4 + length) return;
      const bytes = this.#joined(4 + length);
      this.#pieces = [bytes.subarray(4 + length)];
      this.#length -= 4 + length;
      yield bytes.subarray(4, 4 + length);
    }
  }

  /** The pieces as one, when the first is shorter than what is wanted. */
  #joined(length: number): Buffer {
    if (this.#pieces.length > 1 && this.#pieces[0]!.length < length) {
      this.#pieces = [Buffer.concat(this.#pieces)];
    }
    return this.#pieces[0]!;
  }
}
